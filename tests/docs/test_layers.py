"""The picture of the layers follows from the contracts, and the way of data names real packages."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

from tests.docs.tree import ROOT

_NO_ROOMS = {"__init__", "__pycache__", "ray", "kaito"}
"""Beside the rooms: the packages that only hold them."""

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


def test_every_room_stands_in_one_layer():
    layers = " ".join(_contract("layers")["layers"]).replace(" | ", " ").split()
    rooms = set[str]().union(*map(_rooms_of, ("controller", "controller/ray", "controller/kaito")))
    assert rooms == {each for each in layers if each.startswith("controller.")}


def test_every_module_of_the_command_but_the_development_tools_is_kept_from_the_embedded_cluster():
    named = set(_contract("production does not load the embedded cluster")["source_modules"])
    modules = _rooms_of("controller/command")
    # `cli` loads what a subcommand needs on its use
    assert modules - named == {"controller.command.cli", "controller.command.development"}


def _rooms_of(folder: str) -> set[str]:
    """The names of the packages and modules in a folder."""
    return {
        ".".join(each.relative_to(ROOT).with_suffix("").parts)
        for each in (ROOT / folder).iterdir()
        if (each.is_dir() or each.suffix == ".py") and each.stem not in _NO_ROOMS
    }


def _contract(name: str) -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return next(each for each in settings["contracts"] if each["name"] == name)
