"""Intervals, time limits and thresholds of requests to dashboards."""

from __future__ import annotations

from dataclasses import dataclass, field

from workqueue import Backoff


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """Settings of all actors. Times are in seconds.

    Attributes:
        interval: seconds between two requests of a probe whose value changes.
        longest_interval: the same for a value that has not changed for a long time.
        idle_divisor: the interval is the time without a change divided by this, within the two
            limits.
        backoff: back-off after failed requests.
        connect_timeout: limit for reading the token of a head.
        first_request_timeout: limit for the first request to a head. It is short, so that many new,
            unresponsive heads hold their slots only briefly.
        failure_threshold: consecutive failed requests before a failure is reported.
        not_found_threshold: consecutive responses that a job is unknown before they count.
        confirmation_interval: seconds until a probe is repeated to confirm such a response.
        rate: requests a second of all actors together.
        burst: requests that may exceed that rate.
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
        """Return the seconds until the next request of a probe unchanged for `quiet` seconds."""
        return min(max(interval, quiet / self.idle_divisor), max(interval, self.longest_interval))
