"""How often and how patiently dashboards are asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from workqueue import Backoff


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """Numbers of all actors together. Seconds where nothing else is said.

    Attributes:
        interval: between two questions about the same thing while something moves.
        longest_interval: the same when nothing has moved for long.
        calm: an interval is one in so many of the time for which nothing has moved.
        backoff: after failed requests.
        connect_timeout: for reading the token.
        introduction: for the first request to a head, whatever others may take: of many dead heads
            that are new at once, none must hold its slot for long.
        failures: failed requests in a row that decide something.
        absences: times in a row that Ray must not know a job before that is believed.
        confirm: until it is asked again.
        rate: requests a second, of all actors together.
        burst: requests that may be ahead of that rate.
    """

    interval: float = 3.0
    longest_interval: float = 30.0
    calm: float = 10.0
    backoff: Backoff = field(default_factory=lambda: Backoff(base=1.0, cap=30.0))
    connect_timeout: float = 10.0
    introduction: float = 2.0
    failures: int = 3
    absences: int = 2
    confirm: float = 1.0
    rate: float = 250.0
    burst: int = 250

    def pause(self, interval: float, quiet: float) -> float:
        """Seconds until the next question about what has not moved for `quiet` seconds."""
        return min(max(interval, quiet / self.calm), max(interval, self.longest_interval))
