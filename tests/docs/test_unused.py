"""The product holds no code that only tests use.

A function, class, constant or method counts as used if any other statement of the product names it,
whichever object it asks, or if a template does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from tests.docs.tree import ROOT

PRODUCT = ("workqueue", "informers", "controller", "devcluster", "demos")
CALLED_FROM_OUTSIDE = {
    "do_GET": "by the base class, for each request",
    "do_POST": "by the base class, for each request",
    "log_request": "by the base class, for each request",
    "asend": "by the protocol of asynchronous generators",
    "athrow": "by the protocol of asynchronous generators",
    "converge": "by kinds of others (docs/adding-a-kind.md)",
    "run_kinds": "by operators of others (same)",
}


def statements() -> Iterator[ast.stmt]:
    """Whatever stands at the top of a module.

    But for `controller.testing`, and for catalogues that are read as a whole, by `globals()`.
    """
    for path in (path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if "testing" not in path.parts and "globals()" not in text:
            yield from flat(ast.parse(text).body)


def flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for each in body:
        if isinstance(each, ast.If | ast.Try):
            yield from flat([*each.body, *each.orelse])
        else:
            yield each


def defined_by(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Assign():
            yield from (each.id for each in node.targets if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            pass


def named_by(node: ast.stmt) -> Iterator[str]:
    for each in ast.walk(node):
        match each:
            case ast.Attribute(attr=name) | ast.Name(id=name, ctx=ast.Load()):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(name)) if name.isidentifier():
                yield name
            case _:
                pass


@pytest.mark.slow
def test_everything_in_the_product_is_used_by_the_product():
    kinds = ("*.svg", "*.html")
    templates = (p for each in PRODUCT for kind in kinds for p in (ROOT / each).rglob(kind))
    defined = set[str]()
    used = {word for path in templates for word in re.findall(r"\w+", path.read_text())}
    for each in statements():
        own = {name for name in defined_by(each) if not name.startswith("__")}
        defined |= own
        if isinstance(each, ast.ClassDef):
            functions = (
                one for one in each.body if not isinstance(one, ast.Assign | ast.AnnAssign)
            )
            defined |= {name for one in functions for name in defined_by(one)}
        if "__all__" not in set(defined_by(each)):
            used |= set(named_by(each)) - own
    unused = {name for name in defined - used if not name.startswith("__")}
    assert unused == CALLED_FROM_OUTSIDE.keys()
