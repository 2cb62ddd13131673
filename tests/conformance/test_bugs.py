"""Bugs that users of such operators reported, by their number in docs/rules.md: each has a
test whose name begins with it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
IMPOSSIBLE = [*range(1, 36), *range(57, 72)]
"""Numbers that concern RayClusters and RayJobs; those of RayService follow with that kind."""


@cache
def names() -> frozenset[str]:
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        found.update(re.findall(r"def (test_bug_\w+)\(", path.read_text()))
    return frozenset(found)


@pytest.mark.parametrize("number", IMPOSSIBLE)
def test_the_bug_has_a_test_of_its_number(number: int):
    assert any(re.match(rf"test_bug_{number:02}(?!\d)", name) for name in names()), (
        f"no test is named test_bug_{number:02}_..."
    )
