"""Workers process the keys of a queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from workqueue.queue import Closed, K, WorkQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def run_workers(
    queue: WorkQueue[K], process: Callable[[K], Awaitable[None]], count: int, *, name: str
) -> None:
    """Process keys with `count` workers until the queue is closed and no key is in flight.

    Args:
        queue: where the keys come from.
        process: handles one key. An exception that it raises stops all workers.
        count: keys that are processed at the same time.
        name: of the workers, in the names of their tasks.

    Raises:
        ExceptionGroup: `process` raised.
    """
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(_work(queue, process), name=f"{name} worker {number}")


async def _work(queue: WorkQueue[K], process: Callable[[K], Awaitable[None]]) -> None:
    while True:
        try:
            async with queue.take() as key:
                await process(key)
        except Closed:
            return
