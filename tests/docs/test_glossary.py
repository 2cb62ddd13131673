"""Every class, function and file that the glossary names exists."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.docs.test_paths import symbols_of
from tests.docs.tree import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text()
NAMED = re.compile(r"^\| [^|]+ \| [^|]+ \| (`[^|]+`) \|$", re.MULTILINE)
NAMES = sorted({name for cell in NAMED.findall(PAGE) for name in re.findall(r"`([^`]+)`", cell)})


@cache
def symbols() -> frozenset[str]:
    packages = ("workqueue", "informers", "controller")
    paths = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    return frozenset().union(*map(symbols_of, paths))


def test_every_word_names_something_and_there_are_fifty_at_most():
    rows = re.findall(r"^\| (?!Word |---)", PAGE, re.MULTILINE)
    assert 0 < len(rows) <= 50
    assert len(rows) == len(NAMED.findall(PAGE))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_glossary_names_exists(name: str):
    if "/" in name:
        assert (ROOT / name).exists()
    else:
        assert name in symbols()
