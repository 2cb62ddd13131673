"""The control loop of every component: workers reconcile the objects of queued keys."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from controller.kube.errors import KubeError
from controller.kube.objects import KubeObject
from informers import last_state
from workqueue import Workers, WorkQueue

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterable

    from informers import Clock, Tombstone

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=KubeObject)

_log = structlog.get_logger(__name__)


class ControlLoop(Generic[K]):
    """Workers around a queue.

    Args:
        name: name of the component, for the log.
        sync: reconciles one object. It may return the seconds until the key's next turn. A
            `KubeError` is retried with back-off.
        workers: number of keys processed at once.
    """

    def __init__(
        self,
        name: str,
        sync: Callable[[K], Awaitable[float | None]],
        *,
        clock: Clock,
        rng: random.Random,
        workers: int,
    ) -> None:
        self._sync = sync
        self._log = _log.bind(component=name)
        self._queue: WorkQueue[K] = WorkQueue(name, clock=clock, rng=rng)
        self._workers = Workers(self._queue, self._attempt, workers, name=name, clock=clock)

    def add(self, key: K) -> None:
        """Enqueue `key`."""
        self._queue.add(key)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._workers.run()

    async def _attempt(self, key: K) -> None:
        try:
            delay = await self._sync(key)
        except KubeError as error:
            self._log.debug("later", key=key, error=repr(error))
            self._queue.add_rate_limited(key)
        except Exception:  # noqa: BLE001  an object that fails must not stop the others
            self._log.exception("failed", key=key)
            self._queue.add_rate_limited(key)
        else:
            self._queue.forget(key)
            if delay is not None:
                self._queue.add_after(key, delay)


class Enqueue(Generic[T, K]):
    """An informer handler that enqueues the keys of every changed object."""

    def __init__(self, add: Callable[[K], None], keys: Callable[[T], Iterable[K]]) -> None:
        self._add = add
        self._keys = keys

    def on_add(self, obj: T, *, initial: bool) -> None:
        """Enqueue for a new object."""
        del initial
        self._enqueue(obj)

    def on_update(self, old: T, new: T) -> None:
        """Enqueue for the old and the new state: keys may differ."""
        self._enqueue(old)
        self._enqueue(new)

    def on_delete(self, obj: T | Tombstone[T]) -> None:
        """Enqueue for a deleted object."""
        self._enqueue(last_state(obj))

    def _enqueue(self, obj: T) -> None:
        for key in self._keys(obj):
            self._add(key)
