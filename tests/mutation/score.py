"""The score of a package: how many of its mutants its tests have killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from tests.mutation.mutant import Change, Equivalent, Mutant, is_for_type_checkers, is_wording

WANTED = 0.95
"""The least share of mutants, without the equivalent ones, that must be killed."""


class Results(Protocol):
    """What became of the mutants of a package."""

    def mutants(self) -> list[Mutant]: ...

    def change(self, mutant: Mutant) -> Change: ...


class Score(Struct, frozen=True):
    """What became of the mutants of a package.

    Attributes:
        survivors: those that are not killed and not listed as equivalent, with their changes.
        equivalent: those that are listed as equivalent.
        wrong: what is wrong with the list of equivalent mutants.
    """

    mutants: Sequence[Mutant]
    untried: int
    survivors: Sequence[tuple[Mutant, Change]]
    equivalent: Sequence[Mutant]
    wrong: Sequence[str]

    @property
    def passed(self) -> bool:
        """Whether enough mutants are killed and the list is right."""
        return not self.wrong and self.share() >= WANTED

    def share(self, module: str | None = None) -> float:
        """Return the share of killed mutants, of a module or of all; 1 where there are none."""
        total = _count(self.mutants, module) - _count(self.equivalent, module)
        missed = _count([mutant for mutant, _ in self.survivors], module)
        return (total - missed) / total if total else 1.0

    def table(self) -> list[str]:
        """Return the lines of a table: a row for each module, then one for all."""
        modules = sorted({mutant.module for mutant in self.mutants})
        width = max(map(len, [*modules, "all"]))
        head = f"{'':<{width}}{'mutants':>9}{'equivalent':>12}{'survivors':>11}{'score':>9}"
        return [head, *(self._row(module, width) for module in [*modules, None])]

    def _row(self, module: str | None, width: int) -> str:
        survivors = _count([mutant for mutant, _ in self.survivors], module)
        return (
            f"{module or 'all':<{width}}{_count(self.mutants, module):>9}"
            f"{_count(self.equivalent, module):>12}{survivors:>11}{self.share(module):>9.1%}"
        )


def score(results: Results, listed: Sequence[Equivalent]) -> Score:
    """Return the score of what `results` holds, without the mutants that are `listed`."""
    everything = results.mutants()
    mutants = [mutant for mutant in everything if not mutant.untried]
    modules = {mutant.module for mutant in mutants}
    concerned = [each for each in listed if each.function.startswith(tuple(modules))]
    keys = Counter((each.function, each.change) for each in concerned)
    functions = {each.function for each in concerned}
    survivors: list[tuple[Mutant, Change]] = []
    equivalent: list[Mutant] = []
    wrong: list[str] = []
    seen: set[tuple[str, Change]] = set()
    for mutant in everything:
        if (mutant.killed or mutant.untried) and mutant.function not in functions:
            continue
        change = results.change(mutant)
        key = (mutant.function, change)
        seen.add(key)
        if mutant.untried:
            continue
        if key in keys and mutant.killed:
            wrong.append(f"killed, but listed as equivalent: {_words(key)}")
        elif key in keys or (not mutant.killed and is_seen_by_nobody(change)):
            equivalent.append(mutant)
        elif not mutant.killed:
            survivors.append((mutant, change))
    wrong += [f"listed as equivalent, but no mutant: {_words(key)}" for key in keys.keys() - seen]
    return Score(mutants, len(everything) - len(mutants), survivors, equivalent, wrong)


def is_seen_by_nobody(change: Change) -> bool:
    """Return whether the change is of types or of wording alone."""
    return is_for_type_checkers(change) or is_wording(change)


def _count(mutants: Sequence[Mutant], module: str | None) -> int:
    return sum(module in (None, mutant.module) for mutant in mutants)


def _words(key: tuple[str, Change]) -> str:
    function, change = key
    return f"{function}: {change.before} -> {change.after}"
