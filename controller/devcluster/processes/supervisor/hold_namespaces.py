"""The process that holds a pod's namespaces, and the first process in them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import NoReturn

from controller.devcluster.processes.supervisor.container_dir import PASSED_ON, exit_status_of
from controller.devcluster.processes.supervisor.kernel import (
    NEWIPC,
    NEWNET,
    NEWPID,
    NEWUTS,
    die_with_parent,
    set_hostname,
    unshare,
)
from controller.devcluster.processes.supervisor.lifeline import open_lifeline, wait_for_end


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
