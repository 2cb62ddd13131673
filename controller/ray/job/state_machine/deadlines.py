"""The time of one reconcile, which remembers the next moment that would have changed something."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class Deadlines:
    """Answers whether moments have been reached, and when the next of them will be.

    Args:
        now: the time of day.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._next: datetime | None = None

    def reached(self, moment: datetime | None) -> bool:
        """Whether it is that late; nothing is never reached. A moment to come is remembered."""
        if moment is None:
            return False
        if moment <= self.now:
            return True
        self._next = moment if self._next is None else min(self._next, moment)
        return False

    def passed(self, start: datetime | None, span: timedelta) -> bool:
        """Whether `span` has passed since `start`, if there was one."""
        return start is not None and self.reached(start + span)

    @property
    def untracked(self) -> Deadlines:
        """The same time for questions whose later answers matter to nobody."""
        return Deadlines(self.now)

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the first of the moments to come that were asked for."""
        return None if self._next is None else (self._next - self.now).total_seconds()
