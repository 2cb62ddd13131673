"""How a supervisor is started."""

from __future__ import annotations

import sys
from pathlib import Path

_START = str(Path(__file__).parent.parent / "supervisor" / "start.py")


def supervisor_command(*arguments: str) -> tuple[str, ...]:
    """The supervisor as a process of its own: without site packages, which it does not need."""
    return (sys.executable, "-I", "-S", _START, *arguments)
