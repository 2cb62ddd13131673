"""Executes the command of a container."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import termios
from typing import TYPE_CHECKING, Any, NoReturn

from controller.devcluster.processes.supervisor.container_dir import HANDLED, NO_COMMAND, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def exec_command(container: Mapping[str, Any], argv: Sequence[str], error: int) -> NoReturn:
    """Replace this process by the command, in its directory and with its environment."""
    environment: dict[str, str] = dict(container["env"])
    cwd = container["cwd"] or "/"
    try:
        os.makedirs(cwd, exist_ok=True)
        os.chdir(cwd)
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C reaches the command
        os.umask(0o022)
        for number in (*HANDLED, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        os.execvpe(argv[0], list(argv), environment)  # noqa: S606 - that is its purpose
    except OSError as failure:
        why = f"cannot run {argv[0]!r}: {os.strerror(failure.errno or errno.EIO)}"
        if failure.filename == cwd:
            why = f"cannot enter the working directory {cwd}: {failure.strerror}"
        os._exit(refuse(error, why, NO_COMMAND))
