"""A repeating timer for handlers with a resync period (INF-51)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable

    from informers.clock import Clock

_SHORTEST = 1.0


class Ticker:
    """Calls back once a period, from `start` to `stop`.

    Args:
        clock: time and timers.
        period: in seconds; raised to 1 if shorter.
        callback: synchronous.
    """

    def __init__(self, clock: Clock, period: float, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._period = max(period, _SHORTEST)
        self._callback = callback
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Start; the first call comes after one period."""
        self._timer = self._clock.call_at(self._clock.time() + self._period, self._tick)

    def stop(self) -> None:
        """Stop; may be called at any time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self.start()
        self._callback()
