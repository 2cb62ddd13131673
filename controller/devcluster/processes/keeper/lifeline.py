"""The named pipe that tells that the cluster's process has ended."""

from __future__ import annotations

import os


def ended(lifeline: int) -> bool:
    """Whether the process at the other end is gone."""
    try:
        return os.read(lifeline, 1) == b""
    except BlockingIOError:
        return False


def grasp(path: str) -> int:
    """Open it."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
