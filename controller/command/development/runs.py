"""The running `manta dev` of this user: each has a name, a record that it locks, and a context."""

from __future__ import annotations

import fcntl
import itertools
import os
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

import msgspec
import yaml

from controller.kube.errors import ConfigurationError

# A kubeconfig that other programs change too, under a lock.
#
# Entries are edited in the tree of YAML nodes, so everything else keeps its value, type and order;
# as with `kubectl config`, comments are lost.

SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
"""The lists of named entries, and the field that holds an entry's content."""

_nodes: Any = yaml  # its stubs leave the tree of nodes untyped
_POLL = 0.05  # seconds until the lock is tried again
_EMPTY = {"apiVersion": "v1", "kind": "Config"} | {section: list[Any]() for section in SECTIONS}


class KubeconfigFile:
    """The content of one kubeconfig while it is locked; see `opened`."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            ConfigurationError: it cannot be read, or is no kubeconfig.
        """
        self._path = path
        try:
            text = path.read_text()
            self.existed = True
        except FileNotFoundError:
            text, self.existed = "", False
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"cannot read the kubeconfig {path}: {why}") from error
        self._root = self._parsed(text)

    @property
    def current_context(self) -> str:
        """`current-context`, empty for none."""
        node = self._value("current-context")
        return str(_plain(node) or "") if node is not None else ""

    @current_context.setter
    def current_context(self, name: str) -> None:
        self._discard("current-context")
        if name:
            self._root.value.append((_node("current-context"), _node(name)))

    @property
    def is_void(self) -> bool:
        """True if it holds nothing but what every kubeconfig has."""
        plain: dict[str, Any] = _plain(self._root)
        return not any(value for key, value in plain.items() if key not in {"apiVersion", "kind"})

    def entries(self, section: str) -> dict[str, dict[str, Any]]:
        """Return the contents of the entries of one section by name."""
        return {
            str(entry["name"]): entry.get(SECTIONS[section]) or {}
            for entry in map(_plain, self._list(section))
        }

    def add(self, section: str, name: str, content: dict[str, Any]) -> None:
        """Append an entry."""
        self._list(section).append(_node({"name": name, SECTIONS[section]: content}))

    def remove(self, section: str, name: str) -> None:
        """Remove the entry of that name."""
        listed = self._list(section)
        listed[:] = [entry for entry in listed if str(_plain(entry)["name"]) != name]

    def write(self) -> None:
        """Replace the file by this content at once, with the mode and owner that it had.

        Raises:
            ConfigurationError: it cannot be written.
        """
        text = _nodes.serialize(self._root, Dumper=yaml.SafeDumper, width=sys.maxsize)
        try:
            _replace(self._path.resolve(), text)
        except OSError as error:
            raise ConfigurationError(
                f"cannot write the kubeconfig {self._path}: {error.strerror or error}"
            ) from error

    def _parsed(self, text: str) -> yaml.MappingNode:
        try:
            root: Any = _nodes.compose(text, Loader=yaml.SafeLoader)
            if root is None:
                return cast("yaml.MappingNode", _node(_EMPTY))
            plain = _plain(root)
        except (yaml.YAMLError, ValueError) as error:
            raise self._unusable(" ".join(str(error).split())) from error
        if not isinstance(root, yaml.MappingNode):
            raise self._unusable("it is not a mapping")
        for section in SECTIONS:
            listed: Any = plain.get(section) or []
            if not isinstance(listed, list) or not all(map(_is_named, cast("list[Any]", listed))):
                raise self._unusable(f"{section} must be a list of mappings, each with a name")
        return root

    def _unusable(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"the kubeconfig {self._path} cannot be changed: {why}. Correct it, or name another "
            "file with --kubeconfig"
        )

    def _value(self, key: str) -> yaml.Node | None:
        return next((value for name, value in self._root.value if name.value == key), None)

    def _discard(self, key: str) -> None:
        self._root.value[:] = [pair for pair in self._root.value if pair[0].value != key]

    def _list(self, section: str) -> list[yaml.Node]:
        node = self._value(section)
        if not isinstance(node, yaml.SequenceNode):
            self._discard(section)
            node = cast("yaml.SequenceNode", _node([]))
            self._root.value.append((_node(section), node))
        node.flow_style = self._root.flow_style
        return node.value


@contextmanager
def opened(path: Path, *, patience: float = 5.0) -> Generator[KubeconfigFile]:
    """Yield the file, locked as `kubectl config` does, by a file beside it.

    Raises:
        ConfigurationError: it cannot be locked in `patience` seconds or read, or is no kubeconfig.
    """
    lock = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + patience
    while not _create(lock):
        if time.monotonic() > deadline:
            raise ConfigurationError(
                f"{lock} exists: another program is changing the kubeconfig. Remove the file if "
                "none is"
            )
        time.sleep(_POLL)
    try:
        yield KubeconfigFile(path)
    finally:
        lock.unlink(missing_ok=True)


def _create(lock: Path) -> bool:
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigurationError(
            f"cannot create {lock}, which locks the kubeconfig: {error.strerror or error}"
        ) from error
    return True


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with open(descriptor, "w") as file:  # noqa: PTH123  the descriptor has the mode
            file.write(text)
            file.flush()
            with suppress(FileNotFoundError):
                before = path.stat()
                os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, before.st_mode & 0o7777)
            os.fsync(descriptor)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _is_named(entry: Any) -> bool:
    return isinstance(entry, dict) and bool(cast("dict[str, Any]", entry).get("name"))


def _node(value: Any) -> yaml.Node:
    representer = _nodes.representer.SafeRepresenter(default_flow_style=False, sort_keys=False)
    return representer.represent_data(value)


def _plain(node: yaml.Node) -> Any:
    return _nodes.constructor.SafeConstructor().construct_object(node, deep=True)


# The context of a running `manta dev` in a kubeconfig, added and taken out as kind does.
#
# Its cluster, user and context carry an extension that names the run. Only entries with that
# extension are ever changed.

_EXTENSION = "manta.dev/run"


class DevContext(msgspec.Struct, frozen=True):
    """Cluster, user and context of one name, which point to the record of a run."""

    name: str
    run: Path

    def add(
        self,
        path: Path,
        *,
        cluster: Mapping[str, Any],
        user: Mapping[str, Any],
    ) -> str:
        """Add the entries, and make the context the current one; returns which was that before.

        Raises:
            ConfigurationError: the file cannot be changed, others may read it, or it has
                entries of that name that are not of an ended run.
        """
        with opened(path) as file:
            if file.existed and path.stat().st_mode & 0o077:
                raise ConfigurationError(
                    f"others may read the kubeconfig {path}, which is to hold a secret token: "
                    f"`chmod 600 {path}`, or name another file with --kubeconfig"
                )
            for section in SECTIONS:
                self._check_entry(path, file, section)
            _take_out(file, self.name)
            previous = file.current_context
            mark: dict[str, Any] = {"run": str(self.run), "previous": previous}
            if not file.existed:
                mark["created"] = True
            context = {"cluster": self.name, "user": self.name, "namespace": "default"}
            contents = {"clusters": cluster, "users": user, "contexts": context}
            for section, content in contents.items():
                file.add(section, self.name, {**content, **_extensions(mark)})
            file.current_context = self.name
            file.write()
        return previous

    def remove(self, path: Path) -> bool:
        """Take the entries out, if there are any, and put the former current context back.

        Raises:
            ConfigurationError: the file cannot be changed.
        """
        if not path.exists():
            return False
        with opened(path) as file:
            mark = _mark(file, "contexts", self.name)
            if not any(
                _mark(file, section, self.name).get("run") == str(self.run) for section in SECTIONS
            ):
                return False
            heirs = _take_out(file, self.name)
            if file.is_void and mark.get("created") and not heirs:
                path.unlink()
            else:
                file.write()
        return True

    def _check_entry(self, path: Path, file: KubeconfigFile, section: str) -> None:
        if self.name not in file.entries(section):
            return
        run = _mark(file, section, self.name).get("run")
        if run is None:
            raise ConfigurationError(
                f"the kubeconfig {path} has a {SECTIONS[section]} {self.name!r} that `manta dev` "
                "did not add: choose another name with --name, or another file with --kubeconfig"
            )
        if run != str(self.run) and is_running(Path(run)):
            raise ConfigurationError(
                f"another `manta dev` uses the context {self.name!r} of {path}: choose another "
                "name with --name, or another file with --kubeconfig"
            )


def _take_out(file: KubeconfigFile, name: str) -> list[str]:
    """Remove the entries of that name; returns the contexts that came later."""
    mark = _mark(file, "contexts", name)
    for section in SECTIONS:
        file.remove(section, name)
    previous = str(mark.get("previous") or "")
    contexts = file.entries("contexts")
    if file.current_context == name:
        file.current_context = previous if previous in contexts else ""
    heirs = [other for other in contexts if _mark(file, "contexts", other).get("previous") == name]
    inherited: dict[str, Any] = {"previous": previous}
    if mark.get("created"):
        inherited["created"] = True
    for heir in heirs:  # its end restores what the end of this one would have restored
        own = _mark(file, "contexts", heir) | inherited
        file.remove("contexts", heir)
        file.add("contexts", heir, {**contexts[heir], **_extensions(own)})
    return heirs


def _extensions(mark: dict[str, Any]) -> dict[str, Any]:
    return {"extensions": [{"name": _EXTENSION, "extension": mark}]}


def _mark(file: KubeconfigFile, section: str, name: str) -> dict[str, Any]:
    """Return the extension of an entry; empty if it has none."""
    for one in file.entries(section).get(name, {}).get("extensions") or ():
        if one.get("name") == _EXTENSION:
            return one.get("extension") or {}
    return {}


# The records.


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
        return not try_lock(file.fileno(), fcntl.LOCK_SH)


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
        if not try_lock(file.fileno()):
            file.close()
            return None
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # removed by a run that has just ended


def try_lock(descriptor: int, operation: int = fcntl.LOCK_EX) -> bool:
    """Lock a file; returns False if another process has locked it."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: Path) -> RunRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError):
        return None  # it ended, or died while writing
