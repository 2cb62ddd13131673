"""The arguments of `manta completion`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.command.cli.arguments import Commands

_EPILOG: Final = """\
For this shell, and in the file that it reads at start:

  source <(manta completion bash)            ~/.bashrc
  source <(manta completion zsh)             ~/.zshrc, after compinit
  manta completion fish | source             ~/.config/fish/config.fish
"""


def add(commands: Commands) -> None:
    """Add `manta completion`."""
    completion = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description="Print a script by which a shell completes commands, options and their values.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="your shell")
    completion.set_defaults(start=_start)


def _start(options: argparse.Namespace) -> int:
    from controller.command.cli.example import examples  # noqa: PLC0415
    from controller.command.cli.parser import parser  # noqa: PLC0415
    from controller.command.completion import script  # noqa: PLC0415

    sys.stdout.write(script(options.shell, parser(), examples()))
    return 0
