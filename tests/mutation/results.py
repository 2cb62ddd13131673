"""What became of the mutants, as mutmut left it in its folder."""

from __future__ import annotations

import json
from contextlib import chdir
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code

from tests.mutation.mutant import Change, Mutant
from tests.mutation.packages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mutation.packages import Package


@dataclass
class Results:
    """The mutants of one package."""

    package: Package

    def mutants(self) -> list[Mutant]:
        """Return all mutants, by module, function and number."""
        return [
            Mutant(name, path, status_by_exit_code[exit_code])
            for path, meta in self._metas()
            for name, exit_code in json.loads(meta.read_text())["exit_code_by_key"].items()
        ]

    def change(self, mutant: Mutant) -> Change:
        """Return what `mutant` changes."""
        with chdir(self.package.workshop):
            diff = get_diff_for_mutant(mutant.name, path=mutant.path)
        return Change.of_diff(diff)

    def forget(self, fates: set[str]) -> None:
        """Make the results of these kinds unknown, so that the next run tries the mutants again."""
        for _, meta in self._metas():
            data = json.loads(meta.read_text())
            data["exit_code_by_key"] = {
                name: None if status_by_exit_code[exit_code] in fates else exit_code
                for name, exit_code in data["exit_code_by_key"].items()
            }
            meta.write_text(json.dumps(data))

    def _metas(self) -> list[tuple[Path, Path]]:
        """The modules that are still there, each with the file of its results."""
        mutants = self.package.workshop / "mutants"
        found = [
            (meta.relative_to(mutants).with_suffix(""), meta) for meta in mutants.rglob("*.meta")
        ]
        return sorted((path, meta) for path, meta in found if (ROOT / path).exists())
