"""The command line: the arguments of `manta` and of its subcommands.

Only the chosen subcommand is loaded, so that `manta --help` stays quick.
"""

from __future__ import annotations

from controller.command.cli.parser import parser

__all__ = ["parser"]
