"""docs/compatibility.md: every behaviour has its row, and what a row claims a test shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from controller.ray.cluster import ClusterSettings
from controller.ray.job.settings import JobSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
TEST = re.compile(r"`(tests/[\w/.]+\.py)::(\w+)`")
LINK = re.compile(r"\[\w+\.md\]\(\w+\.md\)")
VERDICT = re.compile(r"\*\*(copied|fixed|decided)\*\*")
PLANNED = re.compile(r"planned, (December 2026|(January|February) 2027)")

Row = tuple[str, ...]


def table(heading: str) -> list[Row]:
    """The cells of the table under a heading, without its first two lines."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in lines[2:]]


BEHAVIOURS = table("Fifty subtle behaviours")
FEATURES = table("KubeRay's features")
BEYOND = table("What KubeRay does not do")


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
def test_every_behaviour_has_a_verdict_and_a_proof(row: Row):
    _, theirs, ours, shown = row
    assert theirs
    assert VERDICT.search(ours), ours
    assert TEST.search(shown), shown


@pytest.mark.parametrize("row", FEATURES, ids=lambda row: row[0][:40])
def test_every_feature_is_shown_or_has_a_date(row: Row):
    feature, here, shown = row
    assert feature
    if here == "✓":
        assert TEST.search(shown), shown
    else:
        assert here == "left out" or PLANNED.fullmatch(here), here


@pytest.mark.parametrize("row", BEYOND, ids=lambda row: row[0][:40])
def test_every_advantage_is_shown_or_explained(row: Row):
    _, more = row
    assert TEST.search(more) or LINK.search(more) or PLANNED.fullmatch(more), more


@pytest.mark.parametrize(("path", "name"), sorted(set(TEST.findall(PAGE))))
def test_every_test_that_is_named_exists(path: str, name: str):
    assert (ROOT / path).is_file(), f"{path} does not exist"
    assert name in functions_of(path), f"{path} has no {name}"


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
    for_clusters, for_jobs = Asked(), Asked()
    ClusterSettings.from_environment(for_clusters)
    JobSettings.from_environment(for_jobs)
    assert variables_of("Variables `") == for_clusters.names
    assert variables_of("Variables for RayJobs") == for_jobs.names - for_clusters.names


def variables_of(beginning: str) -> set[str]:
    [row] = [row for row in FEATURES if row[0].startswith(beginning)]
    return set(re.findall(r"`(\w+)`", row[0]))
