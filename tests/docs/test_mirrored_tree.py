"""Tests lie where what they test lies: the folders of tests mirror those of the product."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.tree import ROOT

TESTS = ROOT / "tests"
ACROSS = {
    "chart", "conformance", "devcluster/fidelity", "e2e", "fakes", "faults", "fuzzing",
    "integration", "mutation", "neighbours", "simulation",
}  # fmt: skip
"""What tests several packages at once, or serves such tests."""
PARTED = {"ray", "kaito"}
"""Packages that only hold packages, which share few tests."""


def test_every_folder_of_tests_has_a_counterpart():
    modules = (path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
    folders = {module.parent for module in modules} - {Path()}
    lost = {str(each) for each in folders if not _is_across(each) and _counterpart(each) is None}
    assert lost == set()


def test_every_folder_that_tests_several_packages_is_there():
    assert {each for each in ACROSS if not (TESTS / each).is_dir()} == set()


def test_a_test_of_one_sub_package_lies_in_its_folder():
    found = {
        str(module): sub_package
        for module in (path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
        if str(module.parent) not in PARTED
        and (package := _counterpart(module.parent)) is not None
        and (sub_package := only_sub_package(package, (TESTS / module).read_text())) is not None
    }
    assert found == {}


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        (("controller.ray.job.status.metrics", "controller.ray.api"), "status"),
        (("controller.ray.job.status", "controller.ray.job.status.messages"), "status"),
        (("controller.ray.job.status.metrics", "controller.ray.job.cleanup.cleanup"), None),
        (("controller.ray.job.status.metrics", "controller.ray.job"), None),
        (("controller.ray.job.plan",), None),
        (("controller.ray.api",), None),
    ],
)
def test_the_sub_package_that_alone_is_imported_is_found(
    imports: tuple[str, ...], expected: str | None
):
    source = "\n".join(f"from {each} import something" for each in imports)
    assert only_sub_package(Path("controller/ray/job"), source) == expected


def only_sub_package(package: Path, source: str) -> str | None:
    """The one sub-package from which the source imports, if it imports no more of the package."""
    prefix = [*package.parts]
    names = (
        node.module.split(".")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
    )
    inside = {(*name, "")[len(prefix)] for name in names if name[: len(prefix)] == prefix}
    packages = {
        each for each in inside if each and (ROOT / package / each / "__init__.py").exists()
    }
    return packages.pop() if len(inside) == len(packages) == 1 else None


def _counterpart(folder: Path) -> Path | None:
    """The package, or the folder beside the packages, that a folder of tests is for."""
    if _is_across(folder) or folder == Path():
        return None
    candidates = (Path("controller") / folder, folder)
    return next((each for each in candidates if (ROOT / each).is_dir()), None)


def _is_across(folder: Path) -> bool:
    return not ACROSS.isdisjoint({str(folder), *map(str, folder.parents)})
