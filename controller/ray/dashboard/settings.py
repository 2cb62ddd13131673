"""Intervals, time limits and thresholds of requests to dashboards."""

from __future__ import annotations

from dataclasses import dataclass, field

from workqueue import Backoff


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """Settings of all actors. Times are in seconds.

    Attributes:
        interval: between two requests of a probe whose value changes.
        longest_interval: the same when it has not changed for a long time.
        idle_divisor: an interval is the time without a change divided by this, within these two.
        backoff: after failed requests.
        connect_timeout: for reading the token of a head.
        first_request_timeout: for the first request to a head. It is short, so that many new heads
            that do not answer hold their slots only briefly.
        failure_threshold: failed requests in a row that are reported.
        not_found_threshold: responses in a row that a job is unknown before that is believed.
        confirmation_interval: until a probe is sent again to confirm such a response.
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
        """Seconds until the next request of a probe that has not changed for `quiet` seconds."""
        return min(max(interval, quiet / self.idle_divisor), max(interval, self.longest_interval))
