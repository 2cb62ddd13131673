"""How far a run is, and what became of the mutants, as mutmut keeps it in its folder."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code

from tests.mutation.mutant import Change, Mutant
from tests.mutation.packages import ROOT, Package


class Results:
    def __init__(self, package: Package) -> None:
        self._folder = package.folder
        self._modules = list(self._load())
        self._module_of = {
            name: module for module in self._modules for name in module.exit_code_by_key
        }

    def mutants(self) -> list[Mutant]:
        return [
            Mutant(name, Path(module.path), status_by_exit_code[exit_code])
            for module in self._modules
            for name, exit_code in module.exit_code_by_key.items()
        ]

    def change(self, mutant: Mutant) -> Change:
        with chdir(self._folder):
            diff = get_diff_for_mutant(mutant.name, path=mutant.path)
        return Change.of_diff(diff)

    def record(self, exit_codes: Mapping[str, int | None]) -> list[str]:
        """Keep what became of mutants, by name, and return their fates.

        An exit code is mutmut's, `None` of a mutant that is to be tried again.
        """
        for name, exit_code in exit_codes.items():
            self._module_of[name].exit_code_by_key[name] = exit_code
        for module in {self._module_of[name] for name in exit_codes}:
            module.save()
        return [status_by_exit_code[exit_code] for exit_code in exit_codes.values()]

    def _load(self) -> Iterator[SourceFileMutationData]:
        """Read the results of the modules that are still there."""
        mutants = self._folder / "mutants"
        for meta in sorted(mutants.rglob("*.meta")):
            path = meta.relative_to(mutants).with_suffix("")
            if (ROOT / path).exists():
                module = SourceFileMutationData(path=path)
                module.meta_path = meta
                module.load()
                yield module


STEPS = 20
"""How many lines a run prints."""


@dataclass
class Progress:
    """Tells what became of the mutants that were tried so far."""

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
