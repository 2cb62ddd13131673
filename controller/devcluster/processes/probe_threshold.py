"""When a probe's results become a verdict: after so many of the same kind in a row."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ProbeThreshold:
    """Results of one probe so far.

    Attributes:
        successes: how many in a row make it good.
        failures: how many in a row make it bad.
        verdict: what it is now, None as long as nothing is known.
        last: the last result.
        run: how many results in a row were like the last.
    """

    successes: int
    failures: int
    verdict: bool | None = None
    last: bool | None = None
    run: int = 0

    def after(self, result: bool) -> ProbeThreshold:
        """After one more result."""
        run = self.run + 1 if result == self.last else 1
        decided = run >= (self.successes if result else self.failures)
        return replace(
            self, verdict=result if decided else self.verdict, last=result, run=min(run, 1_000_000)
        )
