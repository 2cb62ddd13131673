"""Time as a parameter: structurally, what an asyncio event loop offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable


class Clock(Protocol):
    """Monotonic seconds and timers. Production passes the running loop."""

    def time(self) -> float:
        """Seconds since some moment."""
        ...

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> TimerHandle:
        """Call back at `when`; the handle can cancel that."""
        ...
