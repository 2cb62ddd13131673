"""Tasks that run besides the steps of a demo."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Coroutine


@asynccontextmanager
async def background(
    tasks: asyncio.TaskGroup, *coroutines: Coroutine[Any, Any, None]
) -> AsyncGenerator[None]:
    """Run the coroutines as tasks until the block ends."""
    running = [tasks.create_task(each) for each in coroutines]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
