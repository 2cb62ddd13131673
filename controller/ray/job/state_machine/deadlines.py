"""The time of one reconcile, and the earliest future moment on which its decisions depend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import counted_from

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class Deadlines:
    """Answers whether deadlines have passed, and remembers the earliest one that has not.

    Args:
        now: the time of day.
        clock_jumped_at: the time of day after its last jump, None if there was none.
        clock_steady_since: time since which the clock has not jumped; None if unknown.
    """

    def __init__(
        self,
        now: datetime,
        clock_jumped_at: datetime | None = None,
        clock_steady_since: datetime | None = None,
    ) -> None:
        self.now = now
        self._clock_jumped_at = clock_jumped_at
        self._clock_steady_since = clock_steady_since
        self._next: datetime | None = None

    def reached(self, moment: datetime | None) -> bool:
        """Return whether `moment` has come; False for None. A future moment is remembered."""
        if moment is None:
            return False
        if moment <= self.now:
            return True
        self._next = moment if self._next is None else min(self._next, moment)
        return False

    def passed(self, start: datetime | None, span: timedelta) -> bool:
        """Return whether `span` has passed since `start`; False if there is no start."""
        return start is not None and self.reached(self.counted_from(start) + span)

    def counted_from(self, start: datetime) -> datetime:
        """Return `start`, unless only a clock that was ahead can have written it."""
        return counted_from(start, self._clock_steady_since, self.now)

    def waited(self, start: datetime | None, span: timedelta) -> bool:
        """Return whether `span` was spent waiting since `start`; False if there is no start.

        This is for the operator's own patience, which a jump of the clock must not end. Users' time
        limits end by the time of day (`passed`).
        """
        return start is not None and self.passed(self.waiting_since(start), span)

    def waiting_since(self, start: datetime) -> datetime:
        """Return `start`, or the last jump of the clock: the time before that is uncertain."""
        jump = self._clock_jumped_at
        if jump is None or jump <= start <= self.now:
            return min(self.counted_from(start), self.now)
        return jump

    @property
    def untracked(self) -> Deadlines:
        """The same time; questions to it do not affect `seconds_to_next`."""
        return Deadlines(self.now, self._clock_jumped_at, self._clock_steady_since)

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the earliest future moment that was asked about; None if there is none."""
        return None if self._next is None else (self._next - self.now).total_seconds()
