"""Docstrings of the product are statements, and those of functions say what is done or returned."""

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
THING = re.compile(r"(The|A|An|All|Any|Each|Every|True|False|None|Whether)\b|`")


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


def things(text: str) -> Iterator[tuple[int, str]]:
    """Line and beginning of each docstring of a function that names a thing instead of an action.

    A property is a thing. So is the row of a table of transitions, whose condition is a statement.
    """
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                words = (ast.get_docstring(node) or "").partition("\n")[0]
                decorators = " ".join(ast.unparse(found) for found in node.decorator_list)
                if THING.match(words) and "property" not in decorators:
                    yield node.lineno, words
            case _:
                pass


def test_docstrings_of_functions_say_what_is_done_or_returned():
    paths = (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py")))
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words}"
        for path in paths
        if path.name != "predicates.py"
        for line, words in things(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "words", ["The names.", "A name.", "An entry.", "All names.", "True if so.", "`a/b`.", "None."]
)
def test_a_thing_in_place_of_an_action_is_found(words: str):
    assert list(things(f'def f():\n    """{words}"""')) == [(1, words)]


def test_an_action_and_a_property_pass():
    text = (
        'def f():\n    """Return the name."""\n'
        'class A:\n    """The name."""\n'
        '    @cached_property\n    def name(self):\n        """The name."""\n'
    )
    assert list(things(text)) == []


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
