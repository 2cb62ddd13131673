"""The arguments of `manta debug`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from controller.command.cli.arguments import add_output, port

if TYPE_CHECKING:
    from controller.command.cli.arguments import Commands

DEFAULT_PORT = 6060

_EXAMPLES = """\
The operator serves the page only if it was started with --debug-port, or installed with the chart's
value debugPort, and only to its own machine or pod. From elsewhere:

  kubectl -n NAMESPACE port-forward deploy/manta-manta-operator 6060
  manta debug

or, with the program in the image:

  kubectl -n NAMESPACE exec deploy/manta-manta-operator -- manta debug

Each replica has a page of its own, which says whether it leads. `manta debug -o json` prints the
page as it is served, for jq; docs/operations.md explains each field.

Signals change the level of the log: SIGUSR1 makes it more verbose, SIGUSR2 less.

Exit status: 0 printed, 1 nothing answers, 2 unusable input.
"""


def add(commands: Commands) -> None:
    """Add `manta debug`."""
    debug = commands.add_parser(
        "debug",
        help="show what a running operator is doing",
        description="Show what a running operator is doing. Trouble comes first: objects in "
        "back-off and why, watches\nthat do not run, dashboards that do not answer. Then queues, "
        "own writes that its caches do not\nshow yet, watches and dashboards.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    debug.add_argument(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        help=f"port of the page on this machine (default: {DEFAULT_PORT})",
    )
    debug.add_argument(
        "--tasks", action="store_true", help="show the tasks of asyncio too, with their places"
    )
    add_output(debug, "text", "json", text="json is the page as it is served (default: text)")
    debug.set_defaults(start=_start)


def _start(options: argparse.Namespace) -> int:
    from controller.command.debug import debug  # noqa: PLC0415  only what it needs

    return debug(options.port, options.output, tasks=options.tasks)
