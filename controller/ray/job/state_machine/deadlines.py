"""The time of one reconcile, and the earliest future moment that its decisions depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class Deadlines:
    """Tells whether deadlines have passed and remembers the earliest one that has not.

    Args:
        now: the time of day.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._next: datetime | None = None

    def reached(self, moment: datetime | None) -> bool:
        """Whether `moment` has come; False for None. A future moment is remembered."""
        if moment is None:
            return False
        if moment <= self.now:
            return True
        self._next = moment if self._next is None else min(self._next, moment)
        return False

    def passed(self, start: datetime | None, span: timedelta) -> bool:
        """Whether `span` has passed since `start`; False if there is no start."""
        return start is not None and self.reached(start + span)

    @property
    def untracked(self) -> Deadlines:
        """The same time; asking it does not affect `seconds_to_next`."""
        return Deadlines(self.now)

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the earliest future moment that was asked about; None if there is none."""
        return None if self._next is None else (self._next - self.now).total_seconds()
