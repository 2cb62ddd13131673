"""How far a run is."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

STEPS = 20
"""How many lines a run prints."""


@dataclass
class Progress:
    """Tells what became of the mutants that were tried so far.

    Attributes:
        path: of the package.
        total: how many mutants are to be tried.
    """

    path: str
    total: int
    _fates: Counter[str] = field(default_factory=Counter)
    _began: float = field(default_factory=time.monotonic)

    def count(self, fates: Iterable[str]) -> str | None:
        """Count mutants, and return a line after every twentieth part of all."""
        before = self._fates.total()
        self._fates.update(fates)
        done = self._fates.total()
        if done * STEPS // self.total > before * STEPS // self.total:
            told = ", ".join(f"{count} {fate}" for fate, count in sorted(self._fates.items()))
            minutes = (time.monotonic() - self._began) / 60
            return f"{self.path}: {done} of {self.total} tried in {minutes:.0f} min: {told}"
        return None
