"""The picture of the layers follows from the contracts, and the way of data names real packages."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import TopologicalSorter

import grimp

from tests.docs.tree import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_picture_is_what_the_script_draws():
    drawn = subprocess.run(
        [sys.executable, "scripts/draw-layers", "--check"], cwd=ROOT, check=False
    )
    assert drawn.returncode == 0, "run scripts/draw-layers"


def test_every_package_in_the_pictures_exists():
    pictures = "".join(re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    packages = set(re.findall(r"\bcontroller(?:\.\w+)+|\binformers\b|\bworkqueue\b", pictures))
    assert len(packages) > 5
    paths = {name: ROOT / name.replace(".", "/") for name in packages}
    missing = [
        name
        for name, path in paths.items()
        if not (path.exists() or path.with_suffix(".py").exists())
    ]
    assert missing == []


def test_no_modules_import_each_other_in_a_circle():
    graph = grimp.build_graph("workqueue", "informers", "controller", cache_dir=None)
    imports = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    TopologicalSorter(imports).prepare()  # names a circle, and counts imports for types too
