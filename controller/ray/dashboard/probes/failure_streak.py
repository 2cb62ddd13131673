"""Consecutive failed requests, which are reported only when there are enough of them."""

from __future__ import annotations

from datetime import UTC, datetime

_NEVER = datetime.max.replace(tzinfo=UTC)


class FailureStreak:
    """Consecutive failures, without a success between them.

    Args:
        threshold: number of failures that make it decisive.

    Attributes:
        length: failures so far.
        since: start of the first failed request.
        error: last error, as a sentence.
    """

    __slots__ = ("_threshold", "error", "length", "since")

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self.length = 0
        self.since: datetime | None = None
        self.error = ""

    @property
    def decisive(self) -> bool:
        """True if it is long enough to be reported."""
        return self.length >= self._threshold

    @property
    def start(self) -> datetime:
        """`since` for comparisons; the end of time without a failure."""
        return self.since or _NEVER

    def add(self, began: datetime, error: str) -> bool:
        """Add a failure; return whether that made the streak decisive."""
        self.length += 1
        self.since = self.since or began
        self.error = error
        return self.length == self._threshold

    def extend(self, other: FailureStreak) -> None:
        """Continue `other` if that streak is older."""
        if self.start <= other.start:
            return
        self.since = other.since
        self.length = max(self.length, other.length)
        self.error = self.error or other.error

    def end(self) -> bool:
        """End the streak after a success; return whether it was decisive."""
        was = self.decisive
        self.length, self.since, self.error = 0, None, ""
        return was
