"""`scripts/kuberay-suites` leaves out just the tests that the page lists, each with a reason."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from tests.docs.tree import ROOT

SCRIPT = ROOT / "scripts" / "kuberay-suites"
PAGE = (ROOT / "docs" / "compatibility.md").read_text()


def script() -> Any:
    loader = SourceFileLoader("kuberay_suites", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # where dataclasses look for their annotations
    loader.exec_module(module)
    return module


def rows() -> list[list[str]]:
    """The rows of the table of exceptions, without its head."""
    section = PAGE.partition("## KubeRay's own end-to-end tests\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_row_of_the_page_is_a_test_that_is_left_out_with_its_reason():
    listed = script().listed()
    assert listed
    assert [[f"`{name}`", why] for name, why in listed.items()] == rows()
    assert all(listed.values())


def test_without_the_suites_it_says_so_and_runs_nothing(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "it has no ray-operator/test" in done.stderr
    assert "Traceback" not in done.stderr
