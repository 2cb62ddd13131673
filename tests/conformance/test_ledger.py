"""The conformance ledger is complete and true: every row has an entry, every entry a test."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEDGER = Path(__file__).with_name("ledger.toml")

ROWS = {f"T{n:03}" for n in range(1, 295)} | {f"M{n:02}" for n in range(1, 37)}
EXPECTATION_RULES = {f"EXP-{n}" for n in (4, *range(6, 13), 20, 21, 22, 24, 25, *range(27, 46))}
LATER = {"webhooks"}


@cache
def entries() -> dict[str, str | dict[str, str]]:
    return tomllib.loads(LEDGER.read_text())["rows"]


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


def rows_in(name: str) -> set[str]:
    """The row numbers that a test's name claims to cover."""
    return set(re.findall(r"(?<![A-Za-z0-9])(T\d{3}|M\d{2})(?![0-9])", name.replace("_", " ")))


def test_every_row_has_an_entry_and_every_entry_is_a_row():
    wanted = ROWS | EXPECTATION_RULES
    assert sorted(wanted - entries().keys()) == [], "rows without entry"
    assert sorted(entries().keys() - wanted) == [], "entries that are no row"


@pytest.mark.parametrize("row", sorted(entries()))
def test_every_entry_names_an_existing_test_or_a_reason(row: str):
    entry = entries()[row]
    if isinstance(entry, dict):
        [(kind, reason)] = entry.items()
        assert kind in {"not_applicable", "later"}
        assert reason in LATER if kind == "later" else len(reason) >= 20
        return
    path, _, name = entry.partition("::")
    assert (ROOT / path).is_file(), f"{path} does not exist"
    for part in name.split("::"):
        assert part in functions_of(ROOT / path), f"{path} has no {part}"


@pytest.mark.slow
def test_a_test_that_names_a_row_is_found_in_the_ledger():
    tests = ROOT / "tests"
    claimed = {
        row
        for path in tests.rglob("test_*.py")
        for name in functions_of(path)
        if name.startswith("test_")
        for row in rows_in(name)
    }
    unlisted = {row for row in claimed if not isinstance(entries().get(row), str)}
    assert sorted(unlisted) == []


def test_the_rows_are_those_that_the_page_of_rules_explains():
    rules = (ROOT / "docs" / "rules.md").read_text()
    found = re.findall(r'^\| <a id="\w+"></a>(T\d{3}|M\d{2}) \|', rules, re.MULTILINE)
    assert sorted(found) == sorted(ROWS)
