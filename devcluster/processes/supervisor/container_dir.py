"""A container without namespaces, and what all supervisors use: directory, command, lifeline."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from devcluster.processes.supervisor.filesystem import (
    adopt_orphans,
    die_with_parent,
    read,
    write,
)


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


def run_plain(container: Mapping[str, Any], argv: Sequence[str], *, main: bool) -> int:
    """Run a command without namespaces; its remaining descendants are found and killed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    error = error_file(container)
    try:
        if not main:
            main_command(container)
    except ProcessLookupError:
        return refuse(error, "the container's main process has ended", NO_CONTAINER)
    lifeline = open_lifeline(container["lifeline"])
    adopt_orphans()
    child = os.fork()
    if child == 0:
        die_with_parent()
        exec_command(container, argv, error)
    if main:
        write(f"{container['root']}/first", str(child))
    status = watch(child, lifeline)
    if main:
        write(f"{container['root']}/first", ENDED)
    _kill_descendants()
    return status


def watch(child: int, lifeline: int, target: int = 0) -> int:
    """Forward signals to `target` and reap orphans until the child or the cluster ends."""
    target = target or child
    wake, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(told)
    for number in HANDLED:
        signal.signal(number, _nothing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    poller = select.poll()
    poller.register(wake, select.POLLIN)
    poller.register(lifeline, 0)
    killed = False
    while not ended(lifeline):
        status = _reap(child)
        if status is not None:
            return 137 if killed else status
        poller.poll(60_000)
        with contextlib.suppress(BlockingIOError, ProcessLookupError):
            for number in os.read(wake, 64):
                if number == KILL:
                    killed = True
                    os.kill(target, signal.SIGKILL)
                elif number != signal.SIGCHLD:
                    os.kill(target, number)
    return 137


def _nothing(number: int, frame: object) -> None:
    """Do nothing; the signal itself wakes the poller."""
    del number, frame


def _reap(child: int) -> int | None:
    """Reap ended processes; return the status of `child` if it is among them."""
    result: int | None = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return result
        if not pid:
            return result
        if pid == child:
            result = exit_status_of(status)


def _kill_descendants() -> None:
    """Kill all descendants; orphans become children of this process."""
    for _ in range(500):
        found = _descendants()
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap(0)
        time.sleep(0.01)


def _descendants() -> set[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                fields = read(f"/proc/{name}/stat").rpartition(")")[2].split()
                if fields[0] != "Z":
                    parents[int(name)] = int(fields[1])
    found: set[int] = set()
    grown = {os.getpid()}
    while grown:
        grown = {pid for pid, parent in parents.items() if parent in grown} - found
        found |= grown
    return found
