"""What a scenario does when nothing disturbs it, played once for all tests of a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any


def measured_once(measure: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Remember what a coroutine function returned for the same arguments.

    Scenarios in virtual time are the same whenever they are played.
    """
    results: dict[tuple[Any, ...], Any] = {}

    @wraps(measure)
    async def measured(*arguments: Any) -> Any:
        if arguments not in results:
            results[arguments] = await measure(*arguments)
        return results[arguments]

    return measured
