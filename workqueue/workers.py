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
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import contextmanager
from typing import Generic, TypeVar

from workqueue.queue import Closed, WorkQueue
from workqueue.waiting import Clock

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
        self._free = asyncio.Semaphore(count)
        self._busy = 0
        self._released = 0
        self._closed = False
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
        async with asyncio.TaskGroup() as group:
            while True:
                await self._free.acquire()
                if self._closed:
                    return
                group.create_task(self._work(), name=self._name)

    async def _work(self) -> None:
        try:
            key = await self._queue.get()
        except Closed:
            self._closed = True
            self._free.release()
            return
        try:
            with self._holding_worker(key):
                await self._process(key)
        finally:
            self._queue.done(key)

    @contextmanager
    def _holding_worker(self, key: K) -> Generator[None]:
        """Hold a worker until the run of `key` ends or its patience is over."""
        run, began = _Run(), self._clock.time()
        self._busy += 1
        patience = 0.0 if key in self._slow else self._patience
        timer = None
        if patience == 0:
            self._release(run)
        elif patience < math.inf:
            timer = self._clock.call_at(began + patience, lambda: self._release(run))
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
            self._end(run)
            self._remember(key, slow=self._clock.time() - began >= self._patience)

    def _release(self, run: _Run) -> None:
        if self._released < self._limit:
            run.released = True
            self._released += 1
            self._busy -= 1
            self._free.release()

    def _end(self, run: _Run) -> None:
        if run.released:
            self._released -= 1
        else:
            self._busy -= 1
            self._free.release()

    def _remember(self, key: K, *, slow: bool) -> None:
        self._slow.pop(key, None)
        if slow:
            self._slow[key] = None
            if len(self._slow) > _MOST_REMEMBERED:
                self._slow.popitem(last=False)


class _Run:
    """One run of a key: whether it has given its worker back."""

    released = False
