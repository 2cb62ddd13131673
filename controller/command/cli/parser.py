"""Puts the subcommands together."""

from __future__ import annotations

from controller import __version__
from controller.command.cli import (
    change_operator,
    completion,
    crds,
    debug,
    demo,
    dev,
    diagnose,
    example,
    plan,
    rollout,
    run,
    status,
)
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
    shown = (run, status, diagnose, debug, dev, demo, example, plan, rollout, crds)
    for subcommand in (*shown, change_operator):
        subcommand.add(commands)
    completion.add(commands, manta)
    return manta
