"""Names that tests import for the type checker alone, which does not read tests, exist."""

from __future__ import annotations

import ast
import re
import textwrap
from functools import cache
from typing import TYPE_CHECKING

from tests.docs.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGES = {"workqueue", "informers", "controller", "tests", "benchmarks", "examples"}
FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n((?:(?: +.*)?\n)+)", re.MULTILINE)


def test_every_name_that_a_test_imports_for_its_types_exists():
    assert [
        f"{path.relative_to(ROOT)}: {module}.{name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for module, name in imports_for_types(path.read_text())
        if not exists(module, name)
    ] == []


def test_a_name_that_does_not_exist_is_found():
    source = "if TYPE_CHECKING:\n    from tests.docs.tree import ROOT, NOWHERE\n\nX = 1\n"
    found = [*imports_for_types(source)]
    assert [name for module, name in found if not exists(module, name)] == ["NOWHERE"]
    assert not exists("tests.docs.nowhere", "ROOT")


def imports_for_types(source: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of what is imported from the project below `if TYPE_CHECKING`."""
    block = "".join(map(textwrap.dedent, FOR_TYPES.findall(source)))
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            yield from ((node.module or "", each.name) for each in node.names)


def exists(module: str, name: str) -> bool:
    """Return whether the module or package defines, imports or contains the name."""
    path = ROOT / module.replace(".", "/")
    inside = path / name
    return inside.is_dir() or inside.with_suffix(".py").exists() or name in names_in(path)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return all names that the module, or the package's `__init__`, binds at its top."""
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    file = next((each for each in candidates if each.exists()), None)
    body = ast.parse(file.read_text()).body if file is not None else []
    return frozenset(name for node in body for name in _bound(node))


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.name
        case ast.alias():
            yield node.asname or node.name
        case ast.Name():
            yield node.id
        case _:
            for each in ast.iter_child_nodes(node):
                yield from _bound(each)
