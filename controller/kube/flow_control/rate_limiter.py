"""A token bucket: limits requests a second, and bursts of requests (THR-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.errors import NotSent
from controller.kube.retry import sleep_until

if TYPE_CHECKING:
    from informers import Clock


class RateLimiter:
    """Admits requests in the order in which they ask.

    Args:
        qps: requests a second in the long run; more than 0.
        burst: requests that may be sent at once after a while without any; at least 1.
        clock: measures the intervals.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._interval = 1.0 / qps
        self._credit = (burst - 1) * self._interval
        self._clock = clock
        self._next = clock.time() - self._credit

    async def wait(self, deadline: float) -> None:
        """Wait for this request's turn.

        Raises:
            NotSent: the turn would come after `deadline`; it is given back.
        """
        now = self._clock.time()
        turn = max(self._next, now - self._credit)
        if turn > deadline:
            raise NotSent(
                f"not sent: by the limit of requests a second, its turn is in {turn - now:.1f} s"
            )
        self._next = turn + self._interval
        await sleep_until(self._clock, turn)
