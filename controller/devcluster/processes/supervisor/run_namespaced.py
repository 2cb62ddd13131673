"""A command in a pod's namespaces."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
from typing import TYPE_CHECKING, Any

from controller.devcluster.processes.supervisor.container_dir import (
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
from controller.devcluster.processes.supervisor.exec import become
from controller.devcluster.processes.supervisor.filesystem import build_root
from controller.devcluster.processes.supervisor.kernel import (
    NEWIPC,
    NEWNET,
    NEWNS,
    NEWPID,
    NEWUSER,
    NEWUTS,
    die_with_parent,
    own_users,
    set_hostname,
    setns,
    unshare,
)
from controller.devcluster.processes.supervisor.lifeline import grasp
from controller.devcluster.processes.supervisor.run_plain import watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_NAMES = (
    (NEWUSER, "user"),  # first: it gives the right to enter the others
    (NEWUTS, "uts"),
    (NEWIPC, "ipc"),
    (NEWNET, "net"),
    (NEWPID, "pid"),
    (NEWNS, "mnt"),
)


def run_inside(room: Mapping[str, Any], argv: Sequence[str]) -> int:
    """Run the main command of a room in namespaces: its first process, in a root of its own."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    error, lifeline = error_file(room), grasp(room["lifeline"])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    if room["pod"]:
        _enter(room["pod"], _shared(room) | NEWPID)
    supervisor = os.fork()
    if supervisor == 0:
        ours.close()
        die_with_parent()
        os._exit(_start_first(room, argv, theirs, error))
    theirs.close()
    first = _first(ours)
    write(f"{room['root']}/first", str(first or ENDED))
    target = first or supervisor
    status = _keep(supervisor, target) if room["pod"] else watch(supervisor, lifeline, target)
    write(f"{room['root']}/first", ENDED)
    return status


def _start_first(
    room: Mapping[str, Any], argv: Sequence[str], tell: socket.socket, error: int
) -> int:
    """In the pod's process namespace, if it has one: make one for the container."""
    try:
        if not room["pod"]:
            if os.geteuid():
                own_users()
                die_with_parent()
            unshare(NEWUTS | NEWIPC)
            set_hostname(room["hostname"])
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
    error, lifeline = error_file(room), grasp(room["lifeline"])
    try:
        users = NEWUSER if os.geteuid() else 0
        _enter(main_command(room), users | _shared(room) | NEWPID | NEWNS)
    except ProcessLookupError:
        return refuse(error, "the container's main process has ended", NO_ROOM)
    child = os.fork()
    if child == 0:
        die_with_parent()
        become(room, argv, error)
    return _keep(child, child) if room["pod"] else watch(child, lifeline)


def try_namespaces(room: Mapping[str, Any]) -> int:
    """Make a room's namespaces and files without a pod that has some; an exit status."""
    os.makedirs(room["network"], exist_ok=True)
    ours, theirs = socket.socketpair()
    status = _start_first(room, ["/bin/true"], theirs, error_file(room))
    ours.close()
    return status


def _shared(room: Mapping[str, Any]) -> int:
    """What the containers of a pod have in common."""
    own_network = room["pod"] and not room["host_network"]
    return NEWUTS | NEWIPC | (NEWNET if own_network else 0)


def _enter(pid: int, kinds: int) -> None:
    wanted = [(kind, name) for kind, name in _NAMES if kinds & kind]
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
