"""The durations of an election."""

from __future__ import annotations

import msgspec

_JITTER = 1.2


class ElectionTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of an election, in seconds (LE-1).

    Raises:
        ValueError: they contradict each other; the message names the setting.
    """

    lease_seconds: int = 15
    """Time without change after which a candidate takes the lease."""

    renew_seconds: float = 10.0
    """Time after the last renewal at which a leader has lost and stops writing."""

    retry_seconds: float = 2.0
    """Time between two renewals; a candidate reads the lease twice in that time."""

    def __post_init__(self) -> None:
        """Check the relations between the durations."""
        if self.lease_seconds < 1:
            raise ValueError("lease_seconds must be at least 1")
        if self.renew_seconds < 1:
            raise ValueError("renew_seconds must be at least 1")
        if self.retry_seconds <= 0:
            raise ValueError("retry_seconds must be more than 0")
        if self.lease_seconds <= self.renew_seconds:
            raise ValueError("lease_seconds must be more than renew_seconds")
        if self.renew_seconds <= _JITTER * self.retry_seconds:
            raise ValueError(f"renew_seconds must be more than {_JITTER} times retry_seconds")
