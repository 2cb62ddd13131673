"""The time of day, which notices when it jumps.

Timers run on the monotonic clock; deadlines and schedules are times of day. When one of the two
jumps (the time is corrected, or the machine was suspended), timers end at the wrong moment, and the
difference of two times of day is not the time that has passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from workqueue import Clock

CLOCK_JUMP = 5.0
"""Seconds by which the time of day may differ from what the monotonic clock expects."""


class TimeOfDay:
    """The time of day. A jump is reported before any later time is returned.

    Args:
        wall: the time of day, UTC.
        clock: the running event loop, or something like it.
        on_jump: called with the seconds of the jump and the time after it.
    """

    def __init__(
        self,
        wall: Callable[[], datetime],
        *,
        clock: Clock,
        on_jump: Callable[[float, datetime], None],
    ) -> None:
        self._wall = wall
        self._clock = clock
        self._on_jump = on_jump
        self._offset = self._offset_of(wall())

    def __call__(self) -> datetime:
        """Return the time of day, UTC."""
        now = self._wall()
        jump = self._offset_of(now) - self._offset
        if abs(jump) > CLOCK_JUMP:
            self._offset += jump
            self._on_jump(jump, now)
        return now

    def _offset_of(self, now: datetime) -> float:
        """Return the seconds between the time of day and the monotonic clock."""
        return now.timestamp() - self._clock.time()
