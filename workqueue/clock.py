"""The time that a queue lives in.

A running asyncio loop is a `Clock`; a test may pass one that it moves by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class TimerHandle(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Do not make the call. Cancelling twice, or too late, does nothing."""
        ...


class Clock(Protocol):
    """Monotonic time and the means to be called at one, as an asyncio loop has them."""

    def time(self) -> float:
        """Return the seconds since a moment that does not change while the process lives."""
        ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call `callback` once, when `time()` has come to `when`."""
        ...
