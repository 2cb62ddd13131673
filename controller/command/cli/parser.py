"""Puts the subcommands together."""

from __future__ import annotations

import argparse

from controller import __version__
from controller.command.cli import change_operator, crds, debug, demo, dev, plan, rollout, run


def parser() -> argparse.ArgumentParser:
    """A parser whose result has `start`, which runs the subcommand and returns the exit status."""
    manta = argparse.ArgumentParser(
        prog="manta",
        description="Manta, a Kubernetes operator for Ray.",
        epilog="Exit status: 0 success or clean stop, 1 failed while running, 2 unusable input.",
    )
    manta.add_argument("--version", action="version", version=f"manta {__version__}")
    commands = manta.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for subcommand in (run, debug, dev, demo, plan, rollout, crds, change_operator):
        subcommand.add(commands)
    return manta
