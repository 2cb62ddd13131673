"""Every file, folder, function and link that a page names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.tree import PAGES, ROOT

FOLDERS = "controller|informers|workqueue|tests|docs|examples|charts|scripts|benchmarks"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w/.-]*)(?:::([\w.]+))?`")
LINK = re.compile(r"\]\((?!http)([^)#]*)(?:#([^)]+))?\)")
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@cache
def symbols_of(path: Path) -> frozenset[str]:
    """Names that a module defines: `function`, `CONSTANT`, `Class`, `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        found.update(_names(node))
        if isinstance(node, ast.ClassDef):
            found.update(f"{node.name}.{name}" for each in node.body for name in _names(each))
    return frozenset(found)


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


@cache
def anchors_of(path: Path) -> frozenset[str]:
    """The anchors of a page: of its headings, as Git hosts make them, and those set by hand."""
    text = path.read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return frozenset(slugs | set(re.findall(r'<a id="([^"]+)">', text)))


@pages
def test_every_file_and_function_that_a_page_names_exists(page: Path):
    for path, symbol in NAMED.findall(page.read_text()):
        assert (ROOT / path).exists(), f"{page.name} names {path}"
        if symbol:
            assert symbol in symbols_of(ROOT / path), f"{page.name} names {path}::{symbol}"


@pages
def test_every_link_of_a_page_leads_somewhere(page: Path):
    for path, anchor in LINK.findall(page.read_text()):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {path}"
        if anchor:
            assert anchor in anchors_of(target), f"{page.name} links to {path}#{anchor}"


def test_every_page_is_in_the_index_of_the_readme():
    readme = (ROOT / "README.md").read_text()
    missing = [
        page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name})" not in readme
    ]
    assert missing == []
