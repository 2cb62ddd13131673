"""Compatibility and security: every behaviour has its row, and what a row claims a test shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from controller.ray.settings import RaySettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "compatibility.md").read_text()
TEST = re.compile(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`")
LINK = re.compile(r"\[\w+\.md\]\(\w+\.md\)")
VERDICT = re.compile(r"\*\*(copied|fixed|decided)\*\*")
PROOFS = {
    number: TEST.findall(tests)
    for number, tests in re.findall(
        r"^- (\w+):\n((?:  .+\n)+)", (DOCS / "proofs.md").read_text(), re.MULTILINE
    )
}
"""The tests of each row, by its number: path and function, which is empty for a whole file."""

Row = tuple[str, ...]


def rows(page: str) -> list[Row]:
    """The rows with a number of all tables of a page, in their order."""
    lines = re.findall(r"^\| [KMSW]?\d+ \|.*$", page, re.MULTILINE)
    return [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in lines]


ROWS = rows(PAGE)
OTHERS = rows((DOCS / "compatibility-kaito.md").read_text() + (DOCS / "security.md").read_text())
BEHAVIOURS = [row for row in ROWS if row[0].isdigit()]
FEATURES = [row for row in ROWS if row[0].startswith("K")]
BEYOND = [row for row in ROWS if row[0].startswith("M")]
OF_LEFT_OUT = {"W50"}
"""Numbers in the text of a row."""


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_all_fifty_are_there():
    assert [int(row[0]) for row in BEHAVIOURS] == list(range(1, 51))


@pytest.mark.parametrize("row", BEHAVIOURS, ids=lambda row: row[0])
def test_every_behaviour_has_a_verdict(row: Row):
    _, theirs, ours = row
    assert theirs
    assert VERDICT.search(ours), ours


@pytest.mark.parametrize("row", [*BEHAVIOURS, *FEATURES, *OTHERS], ids=lambda row: row[0])
def test_every_row_has_a_proof(row: Row):
    assert PROOFS[row[0]], row


@pytest.mark.parametrize("row", BEYOND, ids=lambda row: row[0])
def test_every_advantage_is_shown_or_explained(row: Row):
    number, more = row
    assert PROOFS.get(number) or LINK.search(more), more


def test_each_number_is_that_of_one_row():
    numbers = [row[0] for row in [*ROWS, *OTHERS]]
    assert len(numbers) == len(set(numbers))
    assert PROOFS.keys() - set(numbers) == OF_LEFT_OUT


@pytest.mark.parametrize(
    ("path", "name"), sorted({test for all_ in PROOFS.values() for test in all_})
)
def test_every_test_that_is_named_exists(path: str, name: str):
    assert (ROOT / path).is_file(), f"{path} does not exist"
    assert not name or name in functions_of(path), f"{path} has no {name}"


class Asked(Mapping[str, str]):
    """An empty environment that remembers which variables were looked up."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def test_the_variables_that_the_page_names_are_those_that_are_read():
    environment = Asked()
    RaySettings.from_environment(environment)
    named = variables_of("Variables `") | variables_of("Variables for RayJobs")
    assert named == environment.names - {"ENABLE_ZERO_DOWNTIME", "TZ"}  # of RayServices, and Go's


def variables_of(beginning: str) -> set[str]:
    [row] = [row for row in FEATURES if row[1].startswith(beginning)]
    return set(re.findall(r"`(\w+)`", row[1]))
