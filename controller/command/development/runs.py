"""The running `manta dev` of this user: each has a name, and a record that it locks."""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

import msgspec

from controller.command.development.kubeconfig_file import DevContext
from controller.kube.errors import ConfigurationError


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return Manta's cache directory: `manta` in `XDG_CACHE_HOME` or in `~/.cache`."""
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "manta"


DEFAULT_NAME = "dev"


class RunRecord(msgspec.Struct, frozen=True):
    """The public facts about a run; the URL is empty while it starts."""

    name: str
    pid: int
    url: str = ""
    kubeconfig: str = ""

    def text(self) -> str:
        """Return a text for users."""
        where = f" at {self.url}, kubeconfig {self.kubeconfig}" if self.url else ", starting"
        return f"`manta dev --name {self.name}` runs already (process {self.pid}){where}"


class Run:
    """A claimed name, and what it has in its kubeconfig; `close` gives it back."""

    def __init__(self, name: str, path: Path, file: TextIO) -> None:
        self.name = name
        self.context = DevContext(f"manta-{name}", path)
        self._path = path
        self._file = file
        self.record()

    def record(self, *, url: str = "", kubeconfig: Path | None = None) -> None:
        """Record where it runs; to be called before the kubeconfig is changed."""
        where = str(kubeconfig.absolute()) if kubeconfig else ""
        record = RunRecord(self.name, os.getpid(), url, where)
        self._file.seek(0)
        self._file.truncate()
        self._file.write(msgspec.json.encode(record).decode())
        self._file.flush()

    def close(self) -> None:
        """Remove the record."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def claim(folder: Path, wanted: str | None) -> Run:
    """Claim the wanted name, or the first free one of `dev`, `dev-2` and so on.

    Raises:
        ConfigurationError: the wanted name is that of a running `manta dev`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (wanted,) if wanted else _names():
        path = folder / f"{name}.json"
        if (file := _lock(path)) is not None:
            return Run(name, path, file)
    record = _read(folder / f"{wanted}.json") or RunRecord(str(wanted), 0)
    raise ConfigurationError(f"{record.text()}. Choose another --name")


def running(folder: Path, *, besides: Run) -> list[RunRecord]:
    """Return the other runs."""
    others = [path for path in sorted(folder.glob("*.json")) if path.stem != besides.name]
    return [record for path in others if is_running(path) and (record := _read(path))]


def clean_up(folder: Path) -> list[str]:
    """Take the contexts of killed runs out of their kubeconfigs; returns what was done."""
    done: list[str] = []
    for path in sorted(folder.glob("*.json")):
        if (file := _lock(path)) is not None:
            with file:
                done += _clean_up(path)
    return done


def is_running(path: Path) -> bool:
    """Return whether the run of that record lives."""
    try:
        file = path.open()
    except OSError:
        return False
    with file:
        return not _try(file, fcntl.LOCK_SH)


def _clean_up(path: Path) -> list[str]:
    """Take out the context of a killed run, whose record is locked by this process."""
    record = _read(path)
    taken_out = False
    if record and record.kubeconfig:
        name, kubeconfig = f"manta-{record.name}", Path(record.kubeconfig)
        try:
            taken_out = DevContext(name, path).remove(kubeconfig)
        except ConfigurationError as error:  # the next start tries again
            return [f"context {name} of a killed `manta dev` is still there: {error}"]
    path.unlink(missing_ok=True)
    if record and taken_out:
        return [f"took the context of a killed `manta dev` out of {record.kubeconfig}"]
    return []


def _names() -> Iterator[str]:
    yield DEFAULT_NAME
    yield from (f"{DEFAULT_NAME}-{number}" for number in itertools.count(2))


def _lock(path: Path) -> TextIO | None:
    """Return the locked file, or None if another process has locked it."""
    while True:
        file = path.open("a+")
        if not _try(file, fcntl.LOCK_EX):
            file.close()
            return None
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # removed by a run that has just ended


def _try(file: TextIO, operation: int) -> bool:
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: Path) -> RunRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError):
        return None  # it ended, or died while writing
