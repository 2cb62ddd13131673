"""A line of a page, and with it a row of a table, is short enough to be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tree import ROOT

LONGEST = 400
"""Characters: what needs more is a paragraph with a title, to which the row links."""


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_no_line_of_a_page_is_a_wall_of_text(page: Path):
    lines = enumerate(page.read_text().splitlines(), start=1)
    assert [number for number, line in lines if len(line) > LONGEST] == []
