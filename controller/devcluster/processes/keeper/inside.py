"""A command in a pod's namespaces."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from typing import TYPE_CHECKING, Any

from controller.devcluster.processes.keeper.become import become
from controller.devcluster.processes.keeper.filesystem import build_root
from controller.devcluster.processes.keeper.kernel import (
    NEWIPC,
    NEWNET,
    NEWNS,
    NEWPID,
    NEWUTS,
    die_with_parent,
    setns,
    unshare,
)
from controller.devcluster.processes.keeper.room import (
    ENDED,
    HANDLED,
    KILL,
    NO_ROOM,
    error_file,
    main_command,
    refuse,
    status_of,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def run_inside(room: Mapping[str, Any], argv: Sequence[str]) -> int:
    """Run the main command of a room in namespaces: its first process, in a root of its own."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    error = error_file(room)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    kinds = NEWNET | NEWUTS | NEWIPC if not room["host_network"] else NEWUTS | NEWIPC
    _enter(room["pod"], kinds | NEWPID)
    keeper = os.fork()
    if keeper == 0:
        ours.close()
        die_with_parent()
        os._exit(_start_first(room, argv, theirs, error))
    theirs.close()
    first = _first(ours)
    write(f"{room['root']}/first", str(first or ENDED))
    status = _keep(keeper, first or keeper)
    write(f"{room['root']}/first", ENDED)
    return status


def _start_first(
    room: Mapping[str, Any], argv: Sequence[str], tell: socket.socket, error: int
) -> int:
    """In the pod's process namespace: make one for the container."""
    try:
        unshare(NEWPID | NEWNS)
    except OSError as failure:
        return refuse(error, str(failure), NO_ROOM)
    child = os.fork()
    if child == 0:
        die_with_parent()
        try:
            build_root(room)
            tell.send(b"first")
        except OSError as failure:
            os._exit(refuse(error, f"the file system cannot be made: {failure}", NO_ROOM))
        become(room, argv, error)
    tell.close()
    return status_of(os.waitpid(child, 0)[1])


def _first(ours: socket.socket) -> int:
    """The number of the container's first process, as this namespace knows it; 0 if none came."""
    data, ancillary, _, _ = ours.recvmsg(16, socket.CMSG_SPACE(12))
    if not data or not ancillary:
        return 0
    return struct.unpack("iII", ancillary[0][2][:12])[0]


def exec_inside(room: Mapping[str, Any], argv: Sequence[str]) -> int:
    """Run another command in the room of the main one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    error = error_file(room)
    try:
        kinds = NEWNET | NEWUTS | NEWIPC if not room["host_network"] else NEWUTS | NEWIPC
        _enter(main_command(room), kinds | NEWPID | NEWNS)
    except ProcessLookupError:
        return refuse(error, "the container's main process has ended", NO_ROOM)
    child = os.fork()
    if child == 0:
        die_with_parent()
        become(room, argv, error)
    return _keep(child, child)


def _enter(pid: int, kinds: int) -> None:
    names = ((NEWUTS, "uts"), (NEWIPC, "ipc"), (NEWNET, "net"), (NEWPID, "pid"), (NEWNS, "mnt"))
    wanted = [(kind, name) for kind, name in names if kinds & kind]
    fds = [
        (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind)
        for kind, name in wanted
    ]
    for fd, kind in fds:
        setns(fd, kind)
        os.close(fd)


def _keep(child: int, target: int) -> int:
    """Pass signals on to `target` until `child` has ended; its exit status."""
    killed = False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return 137 if killed else status_of(status)
        got = signal.sigwaitinfo(HANDLED).si_signo
        if got == signal.SIGCHLD:
            continue
        killed = killed or got == KILL
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, signal.SIGKILL if got == KILL else got)
