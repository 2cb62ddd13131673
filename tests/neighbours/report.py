"""Prints the table: a row for each sickness, a column for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.neighbours.kinds import KINDS

if TYPE_CHECKING:
    import pytest

PROPERTY = "cell"
"""Name of the property by which a test reports row, column, known fault and findings."""


def print_table(reporter: pytest.TerminalReporter) -> None:
    """Print what became of each cell, and below it what broke; nothing if none was played."""
    cells = _cells(reporter)
    if not cells:
        return
    reporter.section("neighbours: sicknesses and what became of the healthy tenant beside them")
    columns = [str(column) for column in KINDS]
    rows = list(dict.fromkeys(row for row, _ in cells))
    width = max(map(len, rows))
    reporter.write_line(" " * width + "".join(f"  {column:<12}" for column in columns))
    for row in rows:
        words = "".join(f"  {_word(cells.get((row, column))):<12}" for column in columns)
        reporter.write_line(f"{row:<{width}}{words}".rstrip())
    for (row, column), (_fault, findings) in cells.items():
        for finding in findings:
            reporter.write_line(f"{row}, {column}: {finding}")


def _cells(reporter: pytest.TerminalReporter) -> dict[tuple[str, str], tuple[str, list[str]]]:
    found: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for outcome in ("passed", "failed", "xfailed", "xpassed"):
        for report in reporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    row, column, fault, findings = value
                    found[row, column] = (fault, findings)
    return dict(sorted(found.items()))


def _word(cell: tuple[str, list[str]] | None) -> str:
    if cell is None:
        return "-"
    fault, findings = cell
    return fault or ("BROKEN" if findings else "ok")
