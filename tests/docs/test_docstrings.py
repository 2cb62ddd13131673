"""Docstrings of the product are statements: none begins like a question."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCT = ("workqueue", "informers", "controller")
QUESTION = re.compile(r"(What|Whether|Which|Who|Whose|Whom|Where|How|When|Why)\b")


def questions(text: str) -> Iterator[tuple[int, str]]:
    """Line and beginning of each docstring that begins like a question, also after constants."""
    if '"""W' not in text and '"""H' not in text:
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words))) if QUESTION.match(words):
                yield node.lineno, words.partition("\n")[0]
            case _:
                pass


def test_no_docstring_of_the_product_begins_like_a_question():
    paths = (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py")))
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words}"
        for path in paths
        for line, words in questions(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        '"""What it does."""',
        'class A:\n    """Whether it is one."""',
        'async def f():\n    """How long it lasts.\n\n    More."""',
        'LIMIT = 3\n"""Where it ends."""',
    ],
)
def test_a_question_is_found(text: str):
    assert len(list(questions(text))) == 1


def test_statements_pass():
    text = '"""Whatever it is, it is a statement."""\nX = """What"""\n"""However it ends."""'
    assert list(questions(text)) == []
