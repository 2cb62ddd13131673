"""The command line: the arguments of `manta` and of its subcommands.

Only the chosen subcommand is loaded, so that `manta --help` stays quick.
"""

from __future__ import annotations

from controller import __version__
from controller.command.cli import development, plan, printed, run, status
from controller.command.cli.arguments import CommandParser


def parser() -> CommandParser:
    """Return a parser; `start` of its result runs the subcommand and returns the exit status."""
    manta = CommandParser(
        prog="manta",
        description="Manta, a Kubernetes operator for Ray.",
        epilog="Exit status: 0 success or clean stop, 1 failed, 2 unusable input; `manta COMMAND "
        "--help` names others.",
    )
    manta.add_argument("--version", action="version", version=f"manta {__version__}")
    commands = manta.add_subparsers(title="commands", required=True, metavar="COMMAND")
    run.add(commands)
    status.add(commands)
    development.add(commands)
    printed.add_example(commands)
    plan.add(commands)
    printed.add_crds(commands)
    plan.add_operators(commands)
    printed.add_completion(commands, manta)
    return manta
