"""`manta crds` and `manta example`: definitions and manifests, ready for `kubectl apply`."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import controller
from controller.command.cli.arguments import add_output
from controller.command.connection import suggestion
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

    from controller.command.cli.arguments import Commands

_PACKAGE: Final = Path(controller.__file__).parent
_FOLDERS: Final = (_PACKAGE / "examples", _PACKAGE.parent / "examples")
"""Of an installed package, and of a checkout."""


def add_crds(commands: Commands) -> None:
    """Add `manta crds`."""
    crds = commands.add_parser(
        "crds",
        help="print the CustomResourceDefinitions",
        description="Print the definitions. To install and to upgrade them: "
        "manta crds | kubectl apply --server-side --force-conflicts -f -",
    )
    crds.add_argument(
        "--kind",
        choices=["ray", "workspace"],
        default="ray",
        help="definitions of Ray's kinds or of Kaito's (default: ray)",
    )
    add_output(crds, "yaml", "json")
    crds.set_defaults(start=_crds)


def add_example(commands: Commands) -> None:
    """Add `manta example`."""
    example = commands.add_parser(
        "example",
        help="print a manifest to begin with",
        description="Print a commented manifest; without a name, list them. To apply one: manta "
        "example rayjob | kubectl apply -f -",
    )
    example.add_argument("name", nargs="?", help="name of the example, such as rayjob")
    example.set_defaults(start=_example)


def _crds(options: argparse.Namespace) -> int:
    import msgspec  # noqa: PLC0415  only what the command needs
    import yaml  # noqa: PLC0415

    definitions = _definitions(options.kind)
    if options.output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode() + "\n")
    else:
        sys.stdout.write(yaml.dump_all(definitions, sort_keys=False, Dumper=yaml.CSafeDumper))
    return 0


def _definitions(kind: str) -> list[dict[str, Any]]:
    if kind == "workspace":  # few clusters need them, and Kaito's own work as well
        from controller.kaito.api.definitions import kaito_definitions  # noqa: PLC0415

        return kaito_definitions()
    from controller.ray.api import custom_resource_definitions  # noqa: PLC0415

    return custom_resource_definitions()


def _example(options: argparse.Namespace) -> int:
    files = example_files()
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
    return {name: _summary(file) for name, file in example_files().items()}


def example_files() -> dict[str, Path]:
    """Return the file of each example, by its name."""
    return {file.stem: file for folder in _FOLDERS for file in sorted(folder.glob("*.yaml"))}


def _summary(file: Path) -> str:
    """Return the first sentence of the comment at the top."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), file.read_text().splitlines())
    return " ".join(line[1:].strip() for line in lines).partition(". ")[0].removesuffix(".")
