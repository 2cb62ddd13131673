"""The arguments of `manta completion`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.command.cli.arguments import CommandParser, Commands

_EPILOG: Final = """\
For this shell, and in the file that it reads at start:

  source <(manta completion bash)            ~/.bashrc
  source <(manta completion zsh)             ~/.zshrc, after compinit
  manta completion fish | source             ~/.config/fish/config.fish
"""


def add(commands: Commands, manta: CommandParser) -> None:
    """Add `manta completion`, which completes what `manta` parses."""
    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description="Print a script by which a shell completes commands, options and their values.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="your shell")
    completion.set_defaults(start=partial(_start, manta))


def _start(manta: CommandParser, options: argparse.Namespace) -> int:
    from controller.command.cli.example import examples  # noqa: PLC0415
    from controller.command.completion import script  # noqa: PLC0415

    sys.stdout.write(script(options.shell, manta, examples()))
    return 0
