"""Delays after failures: exponential back-off with jitter and a reset (INF-29, INF-30)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    """Settings of the back-off; all but `factor` and `jitter` in seconds.

    Attributes:
        base: first delay, before jitter.
        factor: each delay is this many times the previous one.
        cap: longest delay, before jitter.
        jitter: each delay is multiplied by a random number in [1, 1 + jitter).
        reset_after: time without failures after which the delays start again at `base`. Must
            exceed the longest delay, otherwise the delays would never grow.
        longest_wait: a longer `Retry-After` is cut to this; a server may send any number.
    """

    base: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0
    longest_wait: float = 60.0

    def __post_init__(self) -> None:
        """Reject a reset window that is not longer than the longest delay."""
        if self.reset_after <= self.cap * (1 + self.jitter):
            raise ValueError("reset_after must be longer than the longest delay")


class RetryBackoff:
    """One back-off, shared by all failures of one reflector."""

    def __init__(self, settings: BackoffSettings, rng: random.Random) -> None:
        self._settings = settings
        self._rng = rng
        self._step = settings.base
        self._quiet_since = math.inf  # there was no delay yet

    def delay(self, now: float, *, at_least: float = 0.0) -> float:
        """Return the seconds to wait from `now`, and increase the next delay.

        The time without failures counts from the end of the previous delay. Upstream counts from
        the previous reset and so shortens the delays during a series of failures (INF-30).

        Args:
            now: time of the clock.
            at_least: the server's `Retry-After`, in seconds.
        """
        settings = self._settings
        if now - self._quiet_since >= settings.reset_after:
            self._step = settings.base
        jittered = self._step * (1 + settings.jitter * self._rng.random())
        self._step = min(self._step * settings.factor, settings.cap)
        delay = max(jittered, min(at_least, settings.longest_wait))
        self._quiet_since = now + delay
        return delay
