"""A container's directory as its supervisor uses it: configuration, first process, start error."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


KILL = signal.SIGRTMIN + 5
"""Kills everything in a container at once."""
PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
HANDLED = {*PASSED_ON, KILL, signal.SIGCHLD}
NO_COMMAND, NO_CONTAINER = 127, 126
"""Exit statuses: the command cannot be run; there is nothing to run it in."""
ENDED = "ended"
"""Word in a container's file `first` in place of a process number after its end."""


def exit_status_of(status: int) -> int:
    """Return the exit status as container runtimes report it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main_command(container: Mapping[str, Any]) -> int:
    """Process id of the main command; waits a moment while it is being started.

    Raises:
        ProcessLookupError: it has ended.
    """
    for _ in range(500):
        with contextlib.suppress(FileNotFoundError):
            told = read(f"{container['root']}/first")
            if told == ENDED or (told and not os.path.exists(f"/proc/{told}")):
                break
            if told:
                return int(told)
        time.sleep(0.01)
    raise ProcessLookupError


def error_file(container: Mapping[str, Any]) -> int:
    """Open the file for the reason why a command could not be started."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    return os.open(f"{container['root']}/error", flags, 0o600)


def refuse(error: int, why: str, status: int) -> int:
    """Report why there is no command; return `status`, the exit status."""
    os.write(error, why.encode())
    os.write(2, f"{why}\n".encode())
    return status


def read(path: str) -> str:
    """Read a whole file."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def write(path: str, text: str) -> None:
    """Make a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
