"""Runs a command without namespaces, and kills its descendants at the end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any

from controller.devcluster.processes.supervisor.container_dir import (
    ENDED,
    HANDLED,
    KILL,
    NO_CONTAINER,
    ended,
    error_file,
    exec_command,
    exit_status_of,
    main_command,
    open_lifeline,
    read,
    refuse,
    write,
)
from controller.devcluster.processes.supervisor.filesystem import adopt_orphans, die_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
