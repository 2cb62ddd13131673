"""Shares one informer among all users of a selection (INF-61)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from informers.codec import Codec
from informers.errors import NotWatched, ShapeConflict
from informers.informer import InformerMetrics, SharedInformer, SingleRun

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from informers.listing import Source
    from informers.objects import IndexFunction, T
    from informers.settings import Clock, ReflectorSettings
    from informers.store import Lister


@dataclass(frozen=True, slots=True)
class WatchSelection:
    """The resource, scope and selectors of an informer.

    Attributes:
        resource: plural name with group, `rayclusters.ray.io`.
        namespace: empty for all namespaces.
        label_selector: as in a request.
        kind: of the objects; events of others are skipped. Empty for any.
        namespaced: whether the objects must have a namespace.
    """

    resource: str
    namespace: str = ""
    label_selector: str = ""
    kind: str = ""
    namespaced: bool = False

    def __str__(self) -> str:
        """Return `pods/default (ray.io/cluster)`."""
        where = f"{self.resource}/{self.namespace}" if self.namespace else self.resource
        return f"{where} ({self.label_selector})" if self.label_selector else where


class InformerFactory:
    """Creates and runs informers, one for each selection.

    Args:
        open_source: returns the source of a selection.
        clock: monotonic time.
        rng: for jitter.
        settings: settings of all reflectors.
        metrics: creates the metrics of one informer.
    """

    def __init__(
        self,
        open_source: Callable[[WatchSelection], Source],
        *,
        clock: Clock,
        rng: random.Random,
        settings: ReflectorSettings | None = None,
        metrics: Callable[[WatchSelection], InformerMetrics] | None = None,
    ) -> None:
        self._open_source = open_source
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._metrics = metrics
        self._informers: dict[WatchSelection, tuple[type[Any], SharedInformer[Any]]] = {}
        self._runs: dict[WatchSelection, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._run = SingleRun()

    def informer(
        self,
        selection: WatchSelection,
        view: type[T],
        *,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
    ) -> SharedInformer[T]:
        """Return the informer of a selection; create and start it if there is none.

        Args:
            selection: what to watch.
            view: Struct type to decode into.
            indexes: index functions to add; their names must be new.

        Raises:
            ShapeConflict: it exists with another type.
            IndexFunctionError: it exists and has an index of that name.
        """
        if selection not in self._informers:
            informer = self._make(selection, view, indexes)
            self._informers[selection] = view, informer
            self._start(selection)
            return informer
        known_view, informer = self._informers[selection]
        if known_view is not view:
            raise ShapeConflict(f"{selection} is watched already, as {known_view.__name__}")
        for name, function in (indexes or {}).items():
            informer.add_index(name, function)
        return cast("SharedInformer[T]", informer)

    @property
    def informers(self) -> Mapping[WatchSelection, SharedInformer[Any]]:
        """All informers by selection."""
        return {selection: informer for selection, (_, informer) in self._informers.items()}

    def lister(self, selection: WatchSelection) -> Lister[Any]:
        """Return the read side of an existing informer. Reading starts no informer.

        Raises:
            NotWatched: there is no informer, or it has not synced yet.
        """
        if selection not in self._informers:
            raise NotWatched(f"there is no informer for {selection}")
        informer = self._informers[selection][1]
        if not informer.has_synced:
            raise NotWatched(f"{selection} has not synced: {informer.statistics().last_error}")
        return informer.lister

    async def run(self) -> None:
        """Run all informers, including those added later, until cancelled.

        Raises:
            AlreadyStarted: a second call.
        """
        self._run.begin("an informer factory runs once")
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for selection in self._informers:
                    self._start(selection)
                await asyncio.Event().wait()
        finally:
            self._tasks = None

    async def wait_for_sync(self) -> None:
        """Wait until every current informer has synced.

        Raises:
            InformerStopped: an informer ended before that; the message names it and its last error.
        """
        for informer in self.informers.values():
            await informer.wait_for_sync()

    async def remove(self, selection: WatchSelection) -> None:
        """Stop and forget an informer; a later request creates a new one.

        Raises:
            NotWatched: there is no such informer.
        """
        if self._informers.pop(selection, None) is None:
            raise NotWatched(f"there is no informer for {selection}")
        if (run := self._runs.pop(selection, None)) is not None:
            run.cancel()
            await asyncio.wait([run])

    def _make(
        self,
        selection: WatchSelection,
        view: type[T],
        indexes: Mapping[str, IndexFunction[T]] | None,
    ) -> SharedInformer[T]:
        return SharedInformer(
            str(selection),
            self._open_source(selection),
            Codec(
                view,
                kind=selection.kind,
                namespace=selection.namespace,
                namespaced=selection.namespaced,
            ),
            clock=self._clock,
            rng=self._rng,
            indexes=indexes,
            settings=self._settings,
            metrics=self._metrics(selection) if self._metrics is not None else None,
        )

    def _start(self, selection: WatchSelection) -> None:
        if self._tasks is not None:
            informer = self._informers[selection][1]
            self._runs[selection] = self._tasks.create_task(
                informer.run(), name=f"informer {selection}"
            )
