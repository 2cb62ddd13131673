"""A class name of the product stands for one thing: nobody has to ask which one is meant."""

from __future__ import annotations

import ast
from collections import Counter

from tests.docs.tree import ROOT

SHARED = {
    "Clock": "the time of an event loop, in libraries that know nothing of each other",
    "Expired": "the response 410, of the client and of the library for informers",
    "NodeClaimStatus": "the same field, read by the operator and by what plays Karpenter",
}
"""Names that several packages have for the same thing, because neither may import the other."""


def test_a_public_class_name_stands_for_one_thing():
    found = Counter[str]()
    for folder in ("controller", "informers", "workqueue"):
        for path in (ROOT / folder).rglob("*.py"):
            found.update(public_classes(path.read_text()))
    assert {name for name, times in found.items() if times > 1} == set(SHARED)


def test_classes_of_a_module_alone_do_not_count():
    source = "class _Own: ...\nclass Shown:\n    class Inner: ...\nOther = Shown"
    assert public_classes(source) == ["Shown", "Inner"]


def public_classes(source: str) -> list[str]:
    """The names of the classes that other modules may meet, which have no underscore."""
    classes = [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    return [name for name in classes if not name.startswith("_")]
