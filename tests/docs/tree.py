"""The text of the repository, as the tests of its documentation read it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "workqueue", "informers", "controller", "devcluster", "demos", "tests", "docs", "benchmarks",
    "examples", "scripts", "charts",
)  # fmt: skip
SUFFIXES = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ""}
DIGIT = re.compile(r"\d")
BLOCK = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"json", "mermaid", "python", "text", "yaml"}
"""Languages of blocks that hold no commands."""
THIS_FOLDER = Path(__file__).parent
PAGES = (
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "charts").glob("*/README.md")),
    ROOT / "tests" / "lab" / "README.md",
)


@cache
def text_files() -> tuple[Path, ...]:
    """Everything that is written by hand: code, tests, pages, manifests; sorted by path."""
    top = [path for path in ROOT.iterdir() if path.is_file()]
    deep = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    return tuple(sorted(path for path in [*top, *deep] if _is_read(path)))


@cache
def lines_with_digits(path: Path) -> tuple[tuple[int, str], ...]:
    """The lines of a file that have a digit, as citations do, numbered from 1."""
    lines = enumerate(path.read_text(errors="replace").splitlines(), start=1)
    return tuple((number, line) for number, line in lines if DIGIT.search(line))


def _is_read(path: Path) -> bool:
    return (
        path.suffix in SUFFIXES
        and not path.name.startswith(".")
        and path.name != "LICENSE"
        and "__pycache__" not in path.parts
        and path.parent != THIS_FOLDER
    )


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each code block of a page."""
    return BLOCK.findall(page.read_text())


def commands_of(page: Path) -> list[str]:
    """Every command of a page: the lines of blocks without a language, without comments."""
    texts = [re.sub(r"\\\n\s*", "", text) for language, text in blocks_of(page) if not language]
    lines = [line.partition("  #")[0] for text in texts for line in text.splitlines()]
    return [line.strip() for line in lines if line.strip()]
