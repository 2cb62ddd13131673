"""Time as a parameter.

A running asyncio loop is a `Clock`; a test may pass a clock of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class TimerHandle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call. Cancelling twice or too late has no effect."""
        ...


class Clock(Protocol):
    """Monotonic time and timers, as an asyncio loop has them."""

    def time(self) -> float:
        """Return the seconds since a fixed moment."""
        ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call `callback` once, when `time()` has reached `when`."""
        ...
