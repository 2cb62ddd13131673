"""The pause before a container is started again: none, then 10 s, doubling up to five minutes.

The back-off resets after a run of ten minutes, as in a real kubelet.
"""

from __future__ import annotations

from dataclasses import dataclass

_FORGIVEN_AFTER = 2.0  # times the longest pause


@dataclass(frozen=True, slots=True)
class RestartBackoff:
    """The restart back-off of one container, in seconds.

    Attributes:
        first: the pause before the second restart.
        longest: the longest pause.
        crashes: number of ends of the container since the last reset.
    """

    first: float
    longest: float
    crashes: int = 0

    def after_run(self, seconds: float) -> RestartBackoff:
        """Return the back-off after one more run of that many seconds."""
        forgiven = seconds > _FORGIVEN_AFTER * self.longest
        return RestartBackoff(self.first, self.longest, 1 if forgiven else self.crashes + 1)

    @property
    def pause(self) -> float:
        """Seconds from the end of the last run to the next start."""
        if self.crashes <= 1:
            return 0.0
        return min(self.first * 2.0 ** min(self.crashes - 2, 32), self.longest)
