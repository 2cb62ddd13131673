"""Hooks of mkdocs: pages from outside docs/, the files that pages cite, and a check of all links.

The site needs nothing from elsewhere: a cited source or manifest is a text file in it.
"""

from __future__ import annotations

import posixpath
import re
import sys
from functools import partial
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "charts/manta-operator/README.md": "chart.md",
    "tests/lab/README.md": "lab.md",
}
"""Pages that are not in docs/, with their names in the site."""

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(?=[)#\s])")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w.]+)`")
_PLACE = {name: page for page, name in ELSEWHERE.items()}


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading as Git hosts make it, so that one link is right in both."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def linked(text: str, page: str) -> Iterator[str]:
    """The files that a page links to, as paths in the repository."""
    for target in _LINK.findall(text):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    for test in _TEST.finditer(text):
        yield test[1]


def in_site(path: str) -> str:
    """Return the path in the site of a file of the repository: a page, a picture, or a text."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.txt"


def on_config(config: Any) -> Any:
    """Make anchors as Git hosts do."""
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from elsewhere, and what pages cite."""
    make: Any = import_module("mkdocs.structure.files").File  # only the site's environment has it
    pages = [*ELSEWHERE, *(f"docs/{each.name}" for each in (ROOT / "docs").glob("*.md"))]
    cited = {path for page in pages for path in linked((ROOT / page).read_text(), page)}
    for path in {*ELSEWHERE, *cited}:
        if not path.startswith("docs/") and (ROOT / path).is_file():
            name = in_site(path)
            files.append(make.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to files of the repository into links to their places in the site.

    A test that is named as evidence becomes the sentence that its name is, which leads to it.
    """
    here = page.file.src_uri
    base = posixpath.dirname(_PLACE.get(here, f"docs/{here}"))
    marked = _LINK.sub(partial(_relinked, base), markdown)
    return _TEST.sub(lambda test: f"[{_sentence(test[2])}]({in_site(test[1])})", marked)


def _sentence(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


def _relinked(base: str, found: re.Match[str]) -> str:
    return in_site(posixpath.normpath(posixpath.join(base, found[1])))


class _Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag has."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given.get(name, "") for name in ("id", "name"))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "src" in given or (tag == "link" and given.get("rel") in {"stylesheet", "icon"}):
            self.loads.append(given.get("src") or given["href"])


def faults(site: Path) -> list[str]:
    """Return the dead links of a site, and what it would load from elsewhere."""
    pages = {path: _Page(path.read_text()) for path in site.rglob("*.html")}
    found = list[str]()
    for path, page in pages.items():
        name = path.relative_to(site)
        if name.name == "404.html":  # its links depend on where the site is served
            continue
        found += [f"{name} loads {each}" for each in page.loads if urlsplit(each).netloc]
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].anchors if target in pages else set[str]()
            dead = not target.exists() or (target in pages and parts.fragment not in {"", *known})
            if dead:
                found.append(f"{name}: dead link {link}")
    return found


def on_post_build(config: Any) -> None:
    """Check the links of the site; end with what is wrong with them."""
    if found := faults(Path(config.site_dir).resolve()):
        sys.exit("\n".join(found))
