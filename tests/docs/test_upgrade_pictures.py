"""The pictures of upgrades show what the operator does."""

from __future__ import annotations

import pytest

from tests.docs.upgrade_pictures import PAGE, PICTURES, block


@pytest.mark.parametrize("name", PICTURES)
async def test_the_page_shows_what_the_operator_does(name: str):
    drawn = await PICTURES[name]()
    assert block(PAGE.read_text(), name) == drawn, "run python -m tests.docs.upgrade_pictures"
