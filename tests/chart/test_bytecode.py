"""What `scripts/compile-image` makes of modules."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from tests.chart.test_image import ROOT

SCRIPT = ROOT / "scripts" / "compile-image"
MODULE = '''"""A module."""
from __future__ import annotations
from dataclasses import dataclass


@dataclass
class Bare:
    """Nothing else."""


async def bare():
    """Nothing else."""


def checked(value):
    """Returns it."""
    assert value, "must be true"
    return value
'''
USE = """
import module, sys
print([each.__doc__ for each in (module, module.bare, module.checked)])
print(module.Bare(), module.checked(1))
module.checked(0)
"""


def script() -> ModuleType:
    loader = SourceFileLoader("compile_image", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_docstrings_are_left_out_and_assertions_are_not(tmp_path: Path, monkeypatch):
    source = tmp_path / "module.py"
    source.write_text(MODULE)
    (tmp_path / "odd.py").write_text("def")
    compiler = script()  # before, or its own bytecode is found there too
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytecode"))
    for each in compiler.sources(tmp_path, set()):
        compiler.write(each)
    [bytecode] = (tmp_path / "bytecode").rglob("*.pyc")
    assert bytecode.name.startswith("module.")
    source.write_text("raise RuntimeError('the source was read')\n")
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}
    done = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[None, None, None]\nBare() 1\n"
    assert done.stderr.endswith("AssertionError: must be true\n")
    assert "line 17, in checked" in done.stderr


def test_folders_that_nothing_imports_are_left_out(tmp_path: Path):
    for name in ("package", "package/tests", "tkinter"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.py").touch()
    found = script().sources(tmp_path, {"tests", "tkinter"})
    assert [each.relative_to(tmp_path) for each in found] == [Path("package/one.py")]
