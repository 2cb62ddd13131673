"""System calls that Python lacks: namespaces, mounts, and parent-death signals."""

from __future__ import annotations

import ctypes
import os
import signal

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
NEWUSER = 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process to new namespaces."""
    _check(_libc.unshare(flags), "unshare")


def unshare_users() -> None:
    """Enter a new user namespace that maps only the current user and group."""
    user, group = os.geteuid(), os.getegid()
    unshare(NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def setns(fd: int, kind: int) -> None:
    """Enter a namespace."""
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mount {source} on {target}")


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)


def set_hostname(name: str) -> None:
    """Set the host name of this namespace."""
    _check(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def change_root(root: str, old: str) -> None:
    """Make `root` the root, with the old one at `old` below it."""
    _check(_libc.pivot_root(root.encode(), old.encode()), "pivot_root")


def detach(point: str) -> None:
    """Detach a mount and everything below it."""
    _check(_libc.umount2(point.encode(), _MNT_DETACH), "umount2")
