"""docs/configuration.md has every setting of the operator."""

from __future__ import annotations

import re

import pytest

from controller.command.manager import _FLAGS, _OTHERS
from tests.docs.configuration_page import PAGE, SECTIONS, table, variables_read
from tests.docs.upgrade_pictures import block


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_has_the_settings_of_the_operator(section: str):
    written = block(PAGE.read_text(), section)
    assert written == table(section), "run python -m tests.docs.configuration_page"


def test_every_setting_says_what_it_means():
    rows = [row for section in SECTIONS for row in table(section).splitlines()]
    assert [row for row in rows if row.endswith("|  |")] == []


def test_the_page_names_every_flag_that_the_file_has_no_field_for():
    named = set(re.findall(r"`-([a-z][a-z-]+)`", PAGE.read_text()))
    assert named == {*_FLAGS, *_OTHERS} - {"h"}


def test_the_page_names_every_variable_that_is_read_and_no_other():
    text = PAGE.read_text().partition("## Variables")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([A-Z_]+)`", text, re.MULTILINE)) == variables_read()
