"""The arguments of `manta crds`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.command.cli.arguments import add_output

if TYPE_CHECKING:
    import argparse

    from controller.command.cli.arguments import Commands


def add(commands: Commands) -> None:
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
    crds.set_defaults(start=_start)


def _start(options: argparse.Namespace) -> int:
    from controller.command.crds import crds  # noqa: PLC0415

    return crds(options.output, options.kind)
