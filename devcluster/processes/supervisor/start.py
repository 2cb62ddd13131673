"""The program around a command in namespaces, and the command line of every supervisor.

It begins in an isolated interpreter, which has to be told where the package is.
"""

from __future__ import annotations

import sys

sys.path.insert(0, __file__.rsplit("/", 4)[0])

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from devcluster.processes.supervisor.container_dir import (
    ENDED,
    HANDLED,
    KILL,
    NO_CONTAINER,
    PASSED_ON,
    error_file,
    exec_command,
    exit_status_of,
    main_command,
    open_lifeline,
    refuse,
    run_plain,
    wait_for_end,
    watch,
)
from devcluster.processes.supervisor.filesystem import (
    NEWIPC,
    NEWNET,
    NEWNS,
    NEWPID,
    NEWUSER,
    NEWUTS,
    build_root,
    die_with_parent,
    read,
    set_hostname,
    setns,
    unshare,
    unshare_users,
    write,
)


def hold_namespaces(hostname: str, lifeline: str, host_network: bool) -> int:
    """Create a pod's namespaces and hold them until the cluster's process or this one ends.

    Protocol: it prints "ready", reads `ip` commands in one line, separated
    by semicolons, and prints "up <pid>".
    """
    fd = open_lifeline(lifeline)
    unshare(NEWUTS | NEWIPC | (0 if host_network else NEWNET))
    set_hostname(hostname)
    print("ready", flush=True)  # noqa: T201 - the protocol
    commands = sys.stdin.readline().strip()
    if not commands:
        return 1
    if not host_network:
        done = subprocess.run(
            ["ip", "-batch", "-"],  # noqa: S607
            input=commands.replace(";", "\n"),
            text=True,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            print(f"failed {done.stderr.strip()}".replace("\n", " "), flush=True)  # noqa: T201
            return 1
    unshare(NEWPID)
    child = _first_process(fd)
    print(f"up {child}", flush=True)  # noqa: T201
    return exit_status_of(os.waitpid(child, 0)[1])


def _first_process(lifeline: int) -> int:
    """Start the first process, which ends with this one."""
    tied, tie = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tied)
        die_with_parent()
        os.write(tie, b".")  # to nobody, if this one has ended meanwhile: then that fails
        _pause(lifeline)
    os.close(tie)
    os.read(tied, 1)
    os.close(tied)
    return child


def _pause(lifeline: int) -> NoReturn:
    """Be the first process of a pod: all others in the pod end with it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans
    for number in PASSED_ON:
        signal.signal(number, signal.SIG_IGN)
    wait_for_end(lifeline)
    os._exit(0)


_NAMES = (
    (NEWUSER, "user"),  # first: it gives the right to enter the others
    (NEWUTS, "uts"),
    (NEWIPC, "ipc"),
    (NEWNET, "net"),
    (NEWPID, "pid"),
    (NEWNS, "mnt"),
)


def run_namespaced(container: Mapping[str, Any], argv: Sequence[str]) -> int:
    """Run a container's main command as process 1 of new namespaces, in its own root."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    error, lifeline = error_file(container), open_lifeline(container["lifeline"])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    if container["pod"]:
        _enter(container["pod"], _shared(container) | NEWPID)
    supervisor = os.fork()
    if supervisor == 0:
        ours.close()
        die_with_parent()
        os._exit(_start_first(container, argv, theirs, error))
    theirs.close()
    first = _first(ours)
    write(f"{container['root']}/first", str(first or ENDED))
    target = first or supervisor
    status = (
        _forward_signals(supervisor, target)
        if container["pod"]
        else watch(supervisor, lifeline, target)
    )
    write(f"{container['root']}/first", ENDED)
    return status


def _start_first(
    container: Mapping[str, Any], argv: Sequence[str], tell: socket.socket, error: int
) -> int:
    """Create the container's namespaces, below the pod's if it has any."""
    try:
        if not container["pod"]:
            if os.geteuid():
                unshare_users()
                die_with_parent()
            unshare(NEWUTS | NEWIPC)
            set_hostname(container["hostname"])
        unshare(NEWPID | NEWNS)
    except OSError as failure:
        return refuse(error, str(failure), NO_CONTAINER)
    child = os.fork()
    if child == 0:
        die_with_parent()
        try:
            build_root(container)
            tell.send(b"first")
        except OSError as failure:
            os._exit(refuse(error, f"the file system cannot be made: {failure}", NO_CONTAINER))
        exec_command(container, argv, error)
    tell.close()
    return exit_status_of(os.waitpid(child, 0)[1])


def _first(ours: socket.socket) -> int:
    """Return the pid of the container's first process in this namespace; 0 if it did not start."""
    data, ancillary, _, _ = ours.recvmsg(16, socket.CMSG_SPACE(12))
    if not data or not ancillary:
        return 0
    return struct.unpack("iII", ancillary[0][2][:12])[0]


def exec_namespaced(container: Mapping[str, Any], argv: Sequence[str]) -> int:
    """Run another command in the container of the main one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    error, lifeline = error_file(container), open_lifeline(container["lifeline"])
    try:
        users = NEWUSER if os.geteuid() else 0
        _enter(main_command(container), users | _shared(container) | NEWPID | NEWNS)
    except ProcessLookupError:
        return refuse(error, "the container's main process has ended", NO_CONTAINER)
    child = os.fork()
    if child == 0:
        die_with_parent()
        exec_command(container, argv, error)
    return _forward_signals(child, child) if container["pod"] else watch(child, lifeline)


def try_namespaces(container: Mapping[str, Any]) -> int:
    """Create a container's namespaces and files without a pod's; return an exit status."""
    os.makedirs(container["network"], exist_ok=True)
    ours, theirs = socket.socketpair()
    status = _start_first(container, ["/bin/true"], theirs, error_file(container))
    ours.close()
    return status


def _shared(container: Mapping[str, Any]) -> int:
    """Return the flags of the namespaces that the containers of a pod share."""
    own_network = container["pod"] and not container["host_network"]
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


def _forward_signals(child: int, target: int) -> int:
    """Forward signals to `target` until `child` has ended; return its exit status."""
    killed = False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return 137 if killed else exit_status_of(status)
        got = signal.sigwaitinfo(HANDLED).si_signo
        if got == signal.SIGCHLD:
            continue
        killed = killed or got == KILL
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, signal.SIGKILL if got == KILL else got)


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit status.

    The commands are `hold HOSTNAME LIFELINE pod|host`, `run FOLDER COMMAND...`,
    `exec FOLDER COMMAND...` and `try FOLDER`.
    """
    verb = arguments[0]
    if verb == "hold":
        return hold_namespaces(arguments[1], arguments[2], arguments[3] == "host")
    container: dict[str, Any] = json.loads(read(f"{arguments[1]}/container.json"))
    argv = arguments[2:]
    if verb == "try":
        return try_namespaces(container)
    if container["namespaced"]:
        return (
            run_namespaced(container, argv) if verb == "run" else exec_namespaced(container, argv)
        )
    return run_plain(container, argv, main=verb == "run")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
