"""The site has every page, its links lead to places in it, and dead ones are found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from scripts import site_pages
from tests.docs.licences import pinned
from tests.docs.tree import PAGES, ROOT

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def listed(entries: list[dict[str, object]]) -> list[str]:
    """The pages of the navigation, in order."""
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
