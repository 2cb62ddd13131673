"""Every file, folder, function and link that a page names exists, also on the site."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from scripts import site_pages
from tests.docs.licences import pinned
from tests.docs.tree import PAGES, ROOT, lines_with_digits, text_files

FOLDERS = (
    "controller|devcluster|demos|informers|workqueue|tests|docs|examples|charts|scripts|benchmarks"
)
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


# -- docs/rules.md explains the rules that code and pages cite by number, and holds no others ------


MOST = 60
FAMILIES = ("INF", "WQ", "EXP", "LE", "MGR", "CTL", "THR", "EVT", "NET", "KAI")
CITATION = re.compile(rf"\b(?:{'|'.join(FAMILIES)})-\d+")
ROW = re.compile(r'^\| <a id="([a-z]+-\d+)"></a>([A-Z]+-\d+) \|', re.MULTILINE)
PRODUCT = ("workqueue", "informers", "controller", "devcluster", "demos")
UNRESOLVABLE = re.compile(
    r"\bDESIGN \d|\b[Tt]raps? \d+|spec/[\w-]+\.md|\b[Ss]ection \d+(?:\.\d+)?\b|\(D\d+\)"
)
ROWS = ROW.findall((ROOT / "docs" / "rules.md").read_text())


def citations() -> dict[str, set[str]]:
    """The files that cite each rule, by its number."""
    found: dict[str, set[str]] = {}
    for path in text_files():
        for _, line in lines_with_digits(path):
            for rule in CITATION.findall(line):
                found.setdefault(rule, set()).add(str(path.relative_to(ROOT)))
    return found


def test_every_rule_that_is_cited_is_explained_and_every_rule_cited_by_code():
    cited, explained = citations(), {rule for _, rule in ROWS}
    assert cited.keys() == explained
    assert [rule for rule, files in cited.items() if not _by_code(files)] == []


def _by_code(files: set[str]) -> bool:
    return any(name.startswith(PRODUCT) for name in files)


def test_no_citation_points_out_of_the_repository():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in text_files()
        for number, line in lines_with_digits(path)
        for match in UNRESOLVABLE.finditer(line)
    ]
    assert found == []


def test_each_rule_is_explained_once_under_its_own_anchor():
    assert [anchor for anchor, rule in ROWS if anchor != rule.lower()] == []
    assert len(ROWS) == len(set(ROWS)) <= MOST


CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def listed(entries: list[dict[str, object]]) -> list[str]:
    found = list[str]()
    for entry in entries:
        for place in entry.values():
            found += listed(place) if isinstance(place, list) else [str(place)]
    return found


def test_every_page_stands_in_the_navigation_once():
    places = [site_pages.in_site(str(page.relative_to(ROOT))) for page in PAGES]
    assert sorted(listed(CONFIG["nav"])) == sorted(places)


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("rayjob.md", "[a](status.md#x)", "[a](status.md#x)"),
        ("rayjob.md", "[a](../README.md)", "[a](index.md)"),
        ("rayjob.md", "[a](../examples/rayjob.yaml)", "[a](source/examples/rayjob.yaml.txt)"),
        ("index.md", "[a](docs/rayjob.md#states)", "[a](rayjob.md#states)"),
        ("lab.md", "[a](../../docs/testing.md)", "[a](testing.md)"),
        ("proofs.md", "`tests/a.py::test_b_is_c`", "[b is c](source/tests/a.py.txt)"),
        ("index.md", "[a](https://ray.io/x) [b](#c)", "[a](https://ray.io/x) [b](#c)"),
    ],
)
def test_a_link_in_the_repository_becomes_one_in_the_site(page: str, text: str, expected: str):
    of_page = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert site_pages.on_page_markdown(text, of_page) == expected


def test_dead_links_and_what_is_loaded_from_elsewhere_are_found(tmp_path: Path):
    (tmp_path / "b.html").write_text('<h1 id="there">')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there"><a href="b.html#gone"><a href="c.html"><a href="https://x.example/">'
        '<a href="#nowhere"><script src="https://cdn.example/a.js"></script><img src="p.svg">'
    )
    assert site_pages.faults(tmp_path) == [
        "a.html loads https://cdn.example/a.js",
        "a.html: dead link b.html#gone",
        "a.html: dead link c.html",
        "a.html: dead link #nowhere",
        "a.html: dead link p.svg",
    ]


def test_the_site_is_pinned_and_loads_no_fonts():
    assert "mkdocs-material" in pinned("requirements-site.lock")
    assert CONFIG["theme"]["font"] is False
