"""The command line that starts a supervisor."""

from __future__ import annotations

import sys
from pathlib import Path

_START = str(Path(__file__).parents[1] / "supervisor" / "start.py")


def supervisor_command(*arguments: str) -> tuple[str, ...]:
    """Return the command of a supervisor, isolated and without site packages."""
    return (sys.executable, "-I", "-S", _START, *arguments)
