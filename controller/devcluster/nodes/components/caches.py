"""The informers of the node components: one for each resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from controller.kube.source import ResourceSource
from informers import Codec, SharedInformer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

    from controller.kube.client import Client
    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource
    from informers import Clock

    T = TypeVar("T", bound=KubeObject)


class NodeCaches:
    """Creates and runs informers.

    Args:
        spawn: starts a coroutine as a task that the caller owns.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._spawn = spawn
        self._informers: dict[str, SharedInformer[Any]] = {}
        self._started: set[str] = set()

    def informer(self, resource: Resource[T]) -> SharedInformer[T]:
        """Return the informer of `resource` in all namespaces; the first call sets its view."""
        name = str(resource)
        if name not in self._informers:
            informer = SharedInformer(
                name,
                ResourceSource(self._client, resource),
                Codec(resource.view),
                clock=self._clock,
                rng=self._rng,
            )
            self._informers[name] = informer
        return cast("SharedInformer[T]", self._informers[name])

    def start(self) -> None:
        """Start the informers that do not run yet. Indexes must be added before."""
        for name, informer in self._informers.items():
            if name not in self._started:
                self._started.add(name)
                self._spawn(informer.run())

    async def wait_for_sync(self) -> None:
        """Wait until every informer has listed its resource."""
        for informer in list(self._informers.values()):
            await informer.wait_for_sync()
