"""The README of the chart."""

from __future__ import annotations

import re

from tests.chart.values_table import PAGE, table, values
from tests.docs.tree import ROOT
from tests.docs.upgrade_pictures import block


def test_the_table_has_the_values_of_the_chart_with_their_comments():
    written = block(PAGE.read_text(), "values")
    assert written == table(), "run python -m tests.chart.values_table"


def test_every_value_says_what_it_means():
    assert [value.path for value in values() if not value.meaning] == []


def test_its_command_is_one_that_is_tried():
    (command,) = re.findall(r"^```\n(.*?\n)```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert f"\n{command}" in (ROOT / "docs" / "install.md").read_text()
