"""Workers process the keys of a queue and are not held up by slow keys.

A run that takes longer than `patience` gives its worker back and continues without one. Otherwise
a few keys with hanging requests, as many as there are workers, would stop all others. The key stays
in flight until its run ends, so the queue's guarantees hold. The next run of such a key takes no
worker at all; after a quick run the key takes one again.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from workqueue.queue import Closed, WorkQueue
from workqueue.waiting import Clock, TimerHandle

K = TypeVar("K", bound=Hashable)

_MOST_REMEMBERED = 10_000
"""Maximum number of slow keys to remember; the one that was slow longest ago is dropped first."""


class Workers(Generic[K]):
    """Processes keys until the queue is closed and no key is in flight.

    Args:
        process: handles one key. An exception that it raises stops all workers.
        count: maximum number of runs that hold a worker.
        patience: seconds for which a run holds a worker.
        limit: maximum number of runs without a worker; beyond it runs keep their workers.
    """

    def __init__(
        self,
        queue: WorkQueue[K],
        process: Callable[[K], Awaitable[None]],
        count: int,
        *,
        name: str,
        clock: Clock,
        patience: float = math.inf,
        limit: int = 0,
    ) -> None:
        self._queue = queue
        self._process = process
        self._name = name
        self._clock = clock
        self._patience = patience
        self._limit = limit
        self._count = count
        self._busy = 0
        self._released = 0
        self._waiting = False  # a task, for a key
        self._closed = asyncio.Event()
        self._slow: OrderedDict[K, None] = OrderedDict()

    @property
    def busy(self) -> int:
        """The number of runs that hold a worker."""
        return self._busy

    @property
    def released(self) -> int:
        """The number of runs that continue without a worker."""
        return self._released

    async def run(self) -> None:
        """Process keys; cancelling this cancels all runs.

        Raises:
            ExceptionGroup: `process` raised.
        """
        async with asyncio.TaskGroup() as self._group:
            self._wait_for_key()
            try:
                await self._closed.wait()
            finally:
                self._closed.set()

    def _wait_for_key(self) -> None:
        """Let one task wait for a key, if none does and a worker is free."""
        if not (self._waiting or self._closed.is_set()) and self._busy < self._count:
            self._waiting = True
            self._group.create_task(self._work(), name=self._name)

    async def _work(self) -> None:
        try:
            key = await self._queue.get()
        except Closed:
            self._closed.set()
            return
        run = self._begin(key)
        try:
            await self._process(key)
        except Exception:  # as the group, which ignores a run that ends as cancelled
            self._closed.set()
            raise
        finally:
            self._end(run)
            self._queue.done(key)
            self._wait_for_key()

    def _begin(self, key: K) -> _Run[K]:
        """Hold a worker until the run of `key` ends or its patience is over."""
        run = _Run(key, self._clock.time())
        self._busy += 1
        self._waiting = False
        if key in self._slow:
            self._release(run)
        elif self._patience < math.inf:
            run.timer = self._clock.call_at(run.began + self._patience, partial(self._release, run))
        self._wait_for_key()
        return run

    def _release(self, run: _Run[K]) -> None:
        if self._released < self._limit:
            run.released = True
            self._released += 1
            self._busy -= 1
            self._wait_for_key()

    def _end(self, run: _Run[K]) -> None:
        if run.timer is not None:
            run.timer.cancel()
        if run.released:
            self._released -= 1
        else:
            self._busy -= 1
        self._slow.pop(run.key, None)
        if self._clock.time() - run.began >= self._patience:
            self._slow[run.key] = None
            if len(self._slow) > _MOST_REMEMBERED:
                self._slow.popitem(last=False)


@dataclass(slots=True)
class _Run(Generic[K]):
    """One run of a key: since when, and whether it has given its worker back."""

    key: K
    began: float
    released: bool = False
    timer: TimerHandle | None = None
