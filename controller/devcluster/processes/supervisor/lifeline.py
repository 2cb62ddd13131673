"""The named pipe that signals the end of the cluster's process."""

from __future__ import annotations

import os
import select


def ended(lifeline: int) -> bool:
    """Return whether the process at the other end is gone."""
    try:
        return os.read(lifeline, 1) == b""
    except BlockingIOError:
        return False


def open_lifeline(path: str) -> int:
    """Open the named pipe."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def wait_for_end(lifeline: int) -> None:
    """Wait until the process at the other end is gone."""
    poller = select.poll()
    poller.register(lifeline, 0)
    while not ended(lifeline):
        poller.poll(60_000)
