"""The root file system of a container: this machine's files with a private layer."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any


def read(path: str) -> str:
    """Read a whole file."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def write(path: str, text: str) -> None:
    """Make a file."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# System calls that Python lacks: namespaces, mounts, and parent-death signals.


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


class MemoryRoot:
    """A root made of folders in memory.

    Args:
        apart: folders of this machine that the root does not have.
    """

    def __init__(self, apart: tuple[str, ...]) -> None:
        self._apart = apart
        self._memory: set[int] = set()

    def build(self, root: str) -> None:
        """Make the root at `root`, an empty folder."""
        self._fill(root, "/", self._apart)
        for folder in self._apart:
            os.makedirs(root + folder, exist_ok=True)

    def make_private(self, folder: str, without: tuple[str, ...] = ()) -> None:
        """Replace a folder of the root that has been entered; the old root is at `/.host`.

        Args:
            folder: the folder.
            without: names in it to create anew.
        """
        if os.stat(folder).st_dev not in self._memory:
            old = f"/.host{folder}"
            self._fill(folder, old, tuple(f"{old}/{name}" for name in without))

    def make_parent(self, path: str) -> None:
        """Make the folder in which `path` is to be, and let `path` be made in it."""
        parent = existing = os.path.dirname(path)
        while not os.path.isdir(existing):
            existing = os.path.dirname(existing)
        self.make_private(os.path.realpath(existing))
        os.makedirs(parent, exist_ok=True)

    def _fill(self, point: str, old: str, without: tuple[str, ...]) -> None:
        mount("tmpfs", point, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        self._memory.add(os.stat(point).st_dev)
        for entry in os.scandir(old):
            new = os.path.join(point, entry.name)
            if entry.path in without:
                continue
            with contextlib.suppress(OSError):  # what may not be seen is not there
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), new)
                    continue
                if entry.is_dir():
                    os.mkdir(new)
                else:
                    write(new, "")
                mount(entry.path, new, flags=MS_BIND | MS_REC)


_PSEUDO = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "sysfs",
    "tracefs",
]
_SHARED = "mode=1777,size=2g"
_OWN = ("/proc", "/sys", "/dev", "/run", "/tmp")  # noqa: S108 - what a container has itself


def build_root(container: Mapping[str, Any]) -> None:
    """Create the root file system from this machine's, and enter it."""
    folder = str(container["root"])
    root = f"{folder}/r"
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    for name in ("r", "t", "l"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    os.chmod(f"{folder}/t", 0o1777)  # noqa: S103 - as every /tmp
    skeleton = None if os.geteuid() == 0 else MemoryRoot(_OWN)
    if skeleton:
        skeleton.build(root)
    else:
        _layers(folder, root)
    _own_folders(folder, root)
    os.makedirs(f"{root}/.host", exist_ok=True)
    change_root(root, f"{root}/.host")
    os.chdir("/")
    if skeleton:
        skeleton.make_private("/etc", without=("hosts", "resolv.conf"))
    for name in ("hosts", "resolv.conf"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/etc/{name}")
        os.symlink(f"/.network/{name}", f"/etc/{name}")
    os.makedirs("/.network", exist_ok=True)
    _bind(f"/.host{container['network']}", "/.network", read_only=True)
    for entry in sorted(container["mounts"], key=lambda entry: entry["target"].count("/")):
        if skeleton and not os.path.exists(entry["target"]):
            skeleton.make_parent(entry["target"])
        _volume(f"/.host{entry['source']}", entry["target"], entry["read_only"])
    if skeleton and container["cwd"] and not os.path.isdir(container["cwd"]):
        skeleton.make_parent(container["cwd"])
    detach("/.host")
    os.rmdir("/.host")


def _layers(folder: str, root: str) -> None:
    """Mount this machine's file systems at `root`, each below a private layer."""
    mounted = _mounted()
    _layer("/", root, folder, 0)
    for number, (point, kind) in enumerate(mounted, 1):
        if kind in _PSEUDO or point == "/" or _below(point, _OWN) or not os.path.isdir(point):
            continue
        with contextlib.suppress(OSError):  # a file system that cannot be mounted is left out
            _layer(point, root + point, folder, number)


def _own_folders(folder: str, root: str) -> None:
    """Mount the directories that each container has to itself."""
    try:
        mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except OSError:  # in a container that hides parts of it
        mount("/proc", f"{root}/proc", flags=MS_BIND | MS_REC)
    mount("/sys", f"{root}/sys", flags=MS_BIND | MS_REC)
    mount("/dev", f"{root}/dev", flags=MS_BIND | MS_REC)
    mount("tmpfs", f"{root}/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, _SHARED)  # noqa: S108
    mount("tmpfs", f"{root}/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    mount(f"{folder}/t", f"{root}/tmp", flags=MS_BIND)  # noqa: S108


def _layer(lower: str, point: str, folder: str, number: int) -> None:
    """Mount `lower` at `point`, with writes to a private layer where that is possible."""
    try:
        _overlay(lower, point, f"{folder}/l/{number}")
    except OSError:
        if number == 0:  # a layer cannot lie in what is one itself, as in most containers
            mount("tmpfs", f"{folder}/l", "tmpfs", MS_NOSUID | MS_NODEV)
            _overlay(lower, point, f"{folder}/l/{number}")
        else:
            mount(lower, point, flags=MS_BIND)


def _overlay(lower: str, point: str, layer: str) -> None:
    os.makedirs(f"{layer}/u", exist_ok=True)
    os.makedirs(f"{layer}/w", exist_ok=True)
    os.chmod(f"{layer}/u", 0o755)  # noqa: S103 - as the root folder
    data = f"lowerdir={lower},upperdir={layer}/u,workdir={layer}/w"
    mount("overlay", point, "overlay", 0, data)


def _mounted() -> list[tuple[str, str]]:
    """Return mount points and file system types, in the order in which they were mounted."""
    found: dict[str, str] = {}
    for line in read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        found.pop(point, None)
        found[point] = after.split()[0]
    return list(found.items())


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _volume(source: str, target: str, read_only: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target):
            write(target, "")
    _bind(source, target, read_only=read_only)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
