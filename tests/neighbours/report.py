"""Prints the table: a row for each sickness, a column for each kind."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from tests.neighbours.kinds import KINDS, Column
from tests.neighbours.sickness import Sickness
from tests.neighbours.sicknesses import SICKNESSES

PROPERTY = "cell"
"""Name of the property by which a test reports row, column, known fault and findings."""


NOT_RUN = "not run"

Cells: TypeAlias = dict[tuple[str, str], tuple[str, list[str]]]
"""Known fault and findings by row and column."""


def print_table(reporter: pytest.TerminalReporter) -> None:
    """Print what became of each cell, and below it what broke; nothing if none was played."""
    cells = _cells(reporter)
    if not cells:
        return
    reporter.section("neighbours: sicknesses and what became of the healthy tenant beside them")
    rows = {row for row, _ in cells}
    width = max(map(len, rows))
    reporter.write_line(" " * width + "".join(f"  {column!s:<15}" for column in KINDS))
    for sickness in sorted(SICKNESSES, key=lambda sickness: sickness.name):
        if sickness.name in rows:
            words = "".join(f"  {_word(cells, sickness, column):<15}" for column in KINDS)
            reporter.write_line(f"{sickness.name:<{width}}{words}".rstrip())
    if reporter.config.option.markexpr == "not slow":
        left = len(SICKNESSES) - len(rows)
        reporter.write_line(f"{NOT_RUN}: left for `make test-all`, as are {left} more rows")
    for (row, column), (_fault, findings) in cells.items():
        for finding in findings:
            reporter.write_line(f"{row}, {column}: {finding}")


def _cells(reporter: pytest.TerminalReporter) -> Cells:
    found: Cells = {}
    for outcome in ("passed", "failed", "xfailed", "xpassed"):
        for report in reporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    row, column, fault, findings = value
                    found[row, column] = (fault, findings)
    return dict(sorted(found.items()))


def _word(cells: Cells, sickness: Sickness, column: Column) -> str:
    if not sickness.concerns(column):
        return "-"
    played = cells.get((sickness.name, str(column)))
    if played is None:
        return NOT_RUN
    fault, findings = played
    return fault or ("BROKEN" if findings else "ok")
