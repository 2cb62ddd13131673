"""Clean-up of a task that was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def ends_in_a_cancelled_task(clean_up: Awaitable[object]) -> bool:
    """Await it in a task that has been cancelled; return whether it came to its end."""
    ends: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await clean_up
            ends.append(True)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    return bool(ends)
