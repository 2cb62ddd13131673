"""The `manta` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from controller.command.cli import parser
from controller.kube.errors import ConfigurationError


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and run one subcommand; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        status: int = options.start(options)
        sys.stdout.flush()
    except BrokenPipeError:  # as `head` does: whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ConfigurationError as error:
        sys.stderr.write(f"manta: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
