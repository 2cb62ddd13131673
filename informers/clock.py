"""Time as a parameter: the part of an asyncio event loop that informers use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable


class Clock(Protocol):
    """Monotonic time and timers. Production passes the running loop."""

    def time(self) -> float:
        """Return the seconds since a fixed moment."""
        ...

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> TimerHandle:
        """Call `callback` at `when`; the handle cancels it."""
        ...
