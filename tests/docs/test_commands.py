"""No command of a page escapes the tests that run them, by the language of its block."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tree import FOLDERS, LANGUAGES, PAGES, ROOT, blocks_of


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_block_holds_commands_or_names_its_language(page: Path):
    assert {language for language, _ in blocks_of(page)} <= {"", *LANGUAGES}
    assert page.read_text().count("```") == 2 * len(blocks_of(page))


def test_every_page_of_the_repository_is_looked_at():
    found = {
        *ROOT.glob("*.md"),
        *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md")),
    }
    assert found == {*PAGES}
