"""The arguments of `manta diagnose`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controller.command.cli.arguments import add_kubeconfig, add_namespaces, port
from controller.command.cli.debug import DEFAULT_PORT

if TYPE_CHECKING:
    from controller.command.cli.arguments import Commands

_EPILOG: Final = """\
Examples:

  manta diagnose                           all of the context's namespace
  manta diagnose rayjob/train -n team-a    one job, its clusters, pods and events
  manta diagnose -A -f report.tar.gz

Inside are, as text: the objects of Ray with their pods, services, jobs and events; Deployment,
configuration, log and metrics of the operator; the definitions without their schemas; versions.
The debug page is inside if it can be reached on this machine (kubectl port-forward POD 6060; see
`manta debug --help`). Logs of Ray's pods are not inside. What could not be had is listed at the end
and in missing.txt.

Not inside are Secrets, the last applied manifest, and values that look like passwords, tokens or
keys, in environment variables, options, addresses and texts: they become <redacted>. A program
cannot recognise every secret: look through the archive before you send it.

Needs the rights to list what is collected, and for metrics `get` on pods/proxy; nothing in the
cluster is changed.

Exit status: 0 written, 1 the object does not exist or the API server does not answer, 2 unusable
input, 130 interrupted.
"""


def add(commands: Commands) -> None:
    """Add `manta diagnose`."""
    diagnose = commands.add_parser(
        "diagnose",
        help="collect what a bug report needs, without secrets",
        description="Collect objects, events, logs, metrics and versions in one archive, without "
        "secrets.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    diagnose.add_argument(
        "target",
        nargs="*",
        metavar="KIND/NAME",
        help="raycluster, rayjob, rayservice, raycronjob or rayclusterfleet, and its name; without "
        "it all of them",
    )
    add_namespaces(diagnose)
    diagnose.add_argument(
        "-f",
        "--file",
        type=Path,
        help="archive to write (default: manta-diagnose-TIME.tar.gz in this folder)",
    )
    diagnose.add_argument(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        help=f"port of the debug page on this machine (default: {DEFAULT_PORT})",
    )
    add_kubeconfig(diagnose)
    diagnose.set_defaults(start=_start)


def _start(options: argparse.Namespace) -> int:
    from controller.command.diagnose import DiagnoseOptions, diagnose  # noqa: PLC0415
    from controller.command.process import interruptible  # noqa: PLC0415

    given = {name: value for name, value in vars(options).items() if name != "start"}
    return asyncio.run(interruptible(diagnose(DiagnoseOptions(**given))))
