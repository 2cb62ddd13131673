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
        idle_divisor: an interval is one in so many of the time for which nothing has moved.
        backoff: after failed requests.
        connect_timeout: for reading the token.
        first_request_timeout: for the first request to a head, whatever others may take: of many
            new dead heads, none must hold its slot for long.
        failure_threshold: failed requests in a row that decide something.
        not_found_threshold: times in a row that Ray must not know a job before that is believed.
        confirmation_interval: until it is asked again.
        rate: requests a second, of all actors together.
        burst: requests that may be ahead of that rate.
    """

    interval: float = 3.0
    longest_interval: float = 30.0
    idle_divisor: float = 10.0
    backoff: Backoff = field(default_factory=lambda: Backoff(base=1.0, cap=30.0))
    connect_timeout: float = 10.0
    first_request_timeout: float = 2.0
    failure_threshold: int = 3
    not_found_threshold: int = 2
    confirmation_interval: float = 1.0
    rate: float = 250.0
    burst: int = 250

    def pause(self, interval: float, quiet: float) -> float:
        """Seconds until the next question about what has not moved for `quiet` seconds."""
        return min(max(interval, quiet / self.idle_divisor), max(interval, self.longest_interval))
