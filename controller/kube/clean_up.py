"""A time limit that holds in clean-up too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


async def ends_within(seconds: float, work: Coroutine[Any, Any, Any]) -> bool:
    """Do the work in a task of its own; return False if the time limit cancelled it.

    Up to Python 3.11.3 `asyncio.timeout` expires with CancelledError in a task that was cancelled
    earlier, such as one that is cleaning up. A new task was not cancelled, so time limits within
    the work hold too.

    Raises:
        Exception: what the work raises.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
        await asyncio.wait({task})
    if task.cancelled():
        return False
    task.result()
    return True
