"""`manta example`: the manifests to begin with."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import controller
from controller.command.targets import suggestion
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

    from controller.command.cli.arguments import Commands

_PACKAGE: Final = Path(controller.__file__).parent
_FOLDERS: Final = (_PACKAGE / "examples", _PACKAGE.parent / "examples")
"""Of an installed package, and of a checkout."""


def add(commands: Commands) -> None:
    """Add `manta example`."""
    example = commands.add_parser(
        "example",
        help="print a manifest to begin with",
        description="Print a commented manifest; without a name, list them. To apply one: manta "
        "example rayjob | kubectl apply -f -",
    )
    example.add_argument("name", nargs="?", help="name of the example, such as rayjob")
    example.set_defaults(start=_start)


def _start(options: argparse.Namespace) -> int:
    files = _files()
    if options.name is None:
        width = max(map(len, files), default=0)
        sys.stdout.writelines(f"{name:{width}}  {text}\n" for name, text in examples().items())
        return 0
    if options.name not in files:
        raise ConfigurationError(
            f"there is no example {options.name!r}; `manta example` lists them"
            f"{suggestion(options.name, files)}"
        )
    sys.stdout.write(files[options.name].read_text())
    return 0


def examples() -> dict[str, str]:
    """Return the first sentence about each example, by its name."""
    return {name: _summary(file) for name, file in _files().items()}


def _files() -> dict[str, Path]:
    return {file.stem: file for folder in _FOLDERS for file in sorted(folder.glob("*.yaml"))}


def _summary(file: Path) -> str:
    """Return the first sentence of the comment at the top."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), file.read_text().splitlines())
    return " ".join(line[1:].strip() for line in lines).partition(". ")[0].removesuffix(".")
