"""The directory of one cluster on this machine, with a record of all resources that it creates.

A cluster that dies without clean-up leaves its directory with an unlocked owner file. The next
start finds it and removes what is recorded there: links by name, routing rules, processes by a tag
in their environment that names the directory. Descendants inherit the tag, whatever their session
or parent.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_START = str(Path(__file__).parent / "supervisor" / "start.py")


def supervisor_command(*arguments: str) -> tuple[str, ...]:
    """Return the command of a supervisor, isolated and without site packages."""
    return (sys.executable, "-I", "-S", _START, *arguments)


TAG_VARIABLE = "MANTA_CONTAINER_DIR"


def tagged_processes(prefix: str) -> Iterator[tuple[int, int]]:
    """Yield process ids and start times of the processes whose tag begins with `prefix`."""
    wanted = f"{TAG_VARIABLE}={prefix}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        pid = int(folder.name)
        started = started_at(pid)
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue  # it has ended, or belongs to another user
        if any(entry.startswith(wanted) for entry in environment.split(b"\0")):
            yield pid, started


def started_at(pid: int) -> int:
    """Return the start of the process, in ticks since boot; 0 if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps shared memory
_OWNER = "owner"
_LINKS = "links"
_RULES = "rules"
_NUMBERS = 16
"""Maximum clusters that run at once on one machine."""


class ClusterDir:
    """The folder of one cluster, locked while the cluster runs.

    Attributes:
        id: short name, unique on this machine; part of the names of links.
        root: the folder. Its path is short, because Ray puts sockets below it.
        memory: a directory in memory if the machine has one, else below `root`.
        number: from 0 to 15, unique among running clusters; selects its networks.
        lifeline: a named pipe that reports end of file when this process has died, to supervisors.
    """

    def __init__(self, base: Path) -> None:
        """Make the folder.

        Raises:
            OSError: it cannot be made, or sixteen clusters run already.
        """
        self._claim, self.number = _claim_number()
        self.id = _free_id(base)
        self.root = base / self.id
        self.root.mkdir(mode=0o700)
        self._owner = (self.root / _OWNER).open("w")
        fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.memory = self._memory()
        self.lifeline = self.root / "alive"
        os.mkfifo(self.lifeline, 0o600)
        self._alive = os.open(self.lifeline, os.O_RDWR | os.O_CLOEXEC)
        self._owner.write(json.dumps({"pid": os.getpid(), "memory": str(self.memory)}))
        self._owner.flush()

    def _memory(self) -> Path:
        folder = _MEMORY / f"manta-{self.id}"
        if os.access(_MEMORY, os.W_OK | os.X_OK):
            folder.mkdir(mode=0o700)
            return folder
        (self.root / "memory").mkdir()
        return self.root / "memory"

    def record_link(self, name: str) -> None:
        """Record a network link that outlives this process; call before creating it."""
        with (self.root / _LINKS).open("a") as file:
            file.write(f"{name}\n")

    def record_rule(self, rule: str) -> None:
        """Record a routing rule, as `ip rule add` takes it; call before creating it."""
        with (self.root / _RULES).open("a") as file:
            file.write(f"{rule}\n")

    def close(self) -> None:
        """Kill remaining processes, and remove links and directories. Idempotent."""
        if self._owner.closed:
            return
        _clean(self.root)
        os.close(self._alive)
        self._owner.close()
        self._claim.close()


@dataclass(frozen=True, slots=True)  # supervisors clean up without site packages
class Leftover:
    """The remains of a dead cluster."""

    pid: int
    processes: int
    links: tuple[str, ...]


def clusters_dir() -> Path:
    """Return the directory of all clusters of this user.

    Raises:
        PermissionError: another user owns a directory of that name.
    """
    folder = Path("/tmp") / f"manta-{os.getuid()}"  # noqa: S108 - checked below
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user: remove it")
    folder.chmod(0o700)
    return folder


def clean_up(base: Path) -> list[Leftover]:
    """Remove the remains of dead clusters."""
    found = [_clean_up_one(root) for root in sorted(base.iterdir())]
    return [leftover for leftover in found if leftover is not None]


def _clean_up_one(root: Path) -> Leftover | None:
    """Remove the remains of a cluster if it is dead and no other process does so."""
    try:
        file = (root / _OWNER).open("r+")
    except OSError:
        return None  # being created, or no cluster, or removed
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None  # it lives
        return _clean(root)


def _clean(root: Path) -> Leftover:
    owner = _owner(root)
    killed = kill_tagged(f"{root}/")
    links = tuple(_lines(root / _LINKS))
    for link in links:
        _delete_link(link)
    for rule in _lines(root / _RULES):
        _ip("rule", "delete", *rule.split())
    memory = Path(str(owner.get("memory") or root))
    if memory == _MEMORY / f"manta-{root.name}":
        shutil.rmtree(memory, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
    return Leftover(int(owner.get("pid") or 0), killed, links)


def _owner(root: Path) -> dict[str, Any]:
    try:
        return json.loads((root / _OWNER).read_text())
    except (OSError, ValueError):
        return {}  # it died while writing


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except FileNotFoundError:
        return []


def _delete_link(name: str) -> None:
    if Path("/sys/class/net", name).exists():
        _ip("link", "delete", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=False, capture_output=True)  # noqa: S603, S607


def kill_tagged(prefix: str, *, patience: float = 5.0) -> int:
    """Kill every process whose tag begins with `prefix`, including those that start meanwhile.

    Returns their number. Blocks for at most `patience` seconds: a killed process may take a moment
    to end.
    """
    killed: set[tuple[int, int]] = set()
    deadline = time.monotonic() + patience
    while found := list(tagged_processes(prefix)):
        for pid, started in found:
            if (pid, started) not in killed and started_at(pid) == started:
                _kill(pid)
                killed.add((pid, started))
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return len(killed)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _free_id(base: Path) -> str:
    while True:
        name = secrets.token_hex(2)
        if not (base / name).exists() and not (_MEMORY / f"manta-{name}").exists():
            return name


def _claim_number() -> tuple[socket.socket, int]:
    """Claim a number by an abstract socket name, which ends with this process."""
    for number in range(_NUMBERS):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0manta-network-{number}")
        except OSError:
            claim.close()
        else:
            return claim, number
    raise OSError(f"{_NUMBERS} clusters run on this machine already: stop one of them")
