"""Success and failure thresholds of probes."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ProbeThreshold:
    """Results of one probe so far.

    Attributes:
        successes: consecutive successes needed.
        failures: consecutive failures needed.
        verdict: the current state, None while unknown.
        last: the last result.
        run: number of consecutive results equal to the last.
    """

    successes: int
    failures: int
    verdict: bool | None = None
    last: bool | None = None
    run: int = 0

    def after(self, result: bool) -> ProbeThreshold:
        """Return the state after one more result."""
        run = self.run + 1 if result == self.last else 1
        decided = run >= (self.successes if result else self.failures)
        return replace(
            self, verdict=result if decided else self.verdict, last=result, run=min(run, 1_000_000)
        )
