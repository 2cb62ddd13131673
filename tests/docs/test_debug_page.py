"""docs/operations.md has every field of the debug page."""

from __future__ import annotations

from tests.docs.debug_page import BLOCK, PAGE, table
from tests.docs.upgrade_pictures import block


def test_the_page_has_every_field():
    assert block(PAGE.read_text(), BLOCK) == table(), "run python -m tests.docs.debug_page"
