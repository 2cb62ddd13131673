"""How long to wait after a failure: a growing ladder with jitter and a true reset (INF-29/30)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    """Shape of the ladder; all but `factor` and `jitter` in seconds.

    Attributes:
        base: first step.
        factor: each step is this many times the one before.
        cap: highest step, before jitter.
        jitter: each delay is multiplied by a random number in [1, 1 + jitter).
        reset_after: quiet time after which the ladder starts anew. Longer than the longest
            delay, or the ladder would never climb.
    """

    base: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0

    def __post_init__(self) -> None:
        """Refuse a reset window that the ladder itself would outlast."""
        if self.reset_after <= self.cap * (1 + self.jitter):
            raise ValueError("reset_after must be longer than the longest delay")


class RetryBackoff:
    """One ladder, shared by all that can fail in one reflector."""

    def __init__(self, settings: BackoffSettings, rng: random.Random) -> None:
        self._settings = settings
        self._rng = rng
        self._step = settings.base
        self._quiet_since = float("-inf")

    def delay(self, now: float, *, at_least: float = 0.0) -> float:
        """Seconds to wait from `now`; climbs one step.

        Quiet time counts from the end of the previous delay: upstream counts from the previous
        *reset* and so climbs down in the midst of failure (INF-30).

        Args:
            now: time of the clock.
            at_least: what the server asked for (Retry-After).
        """
        settings = self._settings
        if now - self._quiet_since >= settings.reset_after:
            self._step = settings.base
        jittered = self._step * (1 + settings.jitter * self._rng.random())
        self._step = min(self._step * settings.factor, settings.cap)
        delay = max(jittered, at_least)
        self._quiet_since = now + delay
        return delay
