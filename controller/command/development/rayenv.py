"""The environment with a pinned Ray that `manta dev --ray` and `make demo KIND=rayjob` run.

It is made once, from `ray.lock`; `python -m controller.command.development.rayenv` makes it too and
prints its folder.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from controller.command.development.runs import cache_dir
from controller.kube.errors import ConfigurationError

LOCK = Path(__file__).with_name("ray.lock")

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "RAY_USAGE_STATS_ENABLED": "0",
        # gRPC's own resolver ignores the hosts file while it waits for a name server
        "GRPC_DNS_RESOLVER": "native",
        # else every pod takes 30 % of the machine's memory
        "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "200000000",
        # else a node drains for as long as a pod's whole grace period
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "2",
        # else Serve starves while another cluster starts: without control groups all pods compete
        "RAY_worker_niceness": "0",
        # else a token in a developer's own ~/.ray makes every cluster refuse the operator
        "RAY_AUTH_MODE": "disabled",
    }
)
"""Default variables of containers that run Ray on a laptop."""

_PIN = re.compile(r"^([a-z0-9-]+)==([^ ]+)", re.MULTILINE)
_MARKER = "made-from"


class RayEnvironment(Struct, frozen=True):
    """A virtual environment created from a lock file with hashes; it may not exist yet."""

    folder: Path
    lock: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"

    @property
    def pins(self) -> dict[str, str]:
        """Versions by name, as the lock file has them."""
        return dict(_PIN.findall(self.lock.read_text()))

    def is_complete(self) -> bool:
        """Return whether it was completed from this lock file, by a Python that still exists."""
        try:
            made_from = (self.folder / _MARKER).read_text()
        except OSError:
            return False
        return made_from == self._fingerprint() and self.python.exists()

    def mark_complete(self) -> None:
        """Mark the environment as complete. The last step of its creation.

        Raises:
            OSError: it could not be written.
        """
        (self.folder / _MARKER).write_text(self._fingerprint())

    def _fingerprint(self) -> str:
        return hashlib.sha256(self.lock.read_bytes()).hexdigest()


def ray_environment(environment: Mapping[str, str] = os.environ) -> RayEnvironment:
    """Return the environment of the Ray version that Manta pins; it may not exist yet."""
    version = dict(_PIN.findall(LOCK.read_text()))["ray"]
    return RayEnvironment(cache_dir(environment) / f"ray-{version}", LOCK)


def python_version() -> str:
    """Return the version of this interpreter, which the environment uses too: "3.13"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


class Progress:
    """Prints a line for every step, and one for every quarter of a step."""

    def __init__(self) -> None:
        self._quarter = 0

    def step(self, text: str) -> None:
        """Print the step."""
        self._quarter = 0
        self._print(text)

    def advance(self, done: int, total: int) -> None:
        """Print how much is done, once for every quarter."""
        quarter = 4 * done // max(total, 1)
        if quarter > self._quarter:
            self._quarter = quarter
            self._print(f"  {done} of {total}")

    def _print(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


# Error messages with remedies, for when the environment with Ray cannot be created.

_OWN = "or give an environment that you have: --image rayproject/ray=PATH"
_UNREACHABLE = (
    "Failed to establish a new connection",
    "Max retries exceeded",
    "Connection refused",
    "connection broken by",
    "Read timed out",
    "Temporary failure in name resolution",
    "ProxyError",
    "SSLError",
)
_LINES_SHOWN = 6


def remedy(failure: InstallerFailed, environment: RayEnvironment) -> str:
    """Return one sentence with the cause and a remedy."""
    output, folder = failure.output, environment.folder
    version = environment.pins["ray"]
    if "No space left on device" in output:
        return (
            f"no space is left for an environment with Ray in {folder.parent}: free about 800 MB, "
            "or set XDG_CACHE_HOME to a folder elsewhere"
        )
    if "ensurepip" in output:
        return (
            "this Python cannot create virtual environments: install the rest of it (Debian and "
            f"Ubuntu: apt install python3-venv), {_OWN}"
        )
    if any(words in output for words in _UNREACHABLE):
        return (
            f"cannot reach the package index to download Ray {version}: check the network, a proxy "
            f"(HTTPS_PROXY) or a mirror (PIP_INDEX_URL), {_OWN}\n{_end_of(output)}"
        )
    if "DO NOT MATCH THE HASHES" in output:
        return (
            "the package index sent something else than what Manta pins; try again, and look at "
            f"the mirror if you use one\n{_end_of(output)}"
        )
    if "No matching distribution found" in output:
        return (
            f"the package index has no Ray {version}, or something that it needs, for Python "
            f"{python_version()} on {platform.system()} {platform.machine()}: run Manta with "
            f"another Python (make PYTHON=python3.13 after make clean), {_OWN}\n{_end_of(output)}"
        )
    return f"cannot create an environment with Ray: {failure.command} failed:\n{_end_of(output)}"


def _end_of(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-_LINES_SHOWN:])


# Runs the programs that create an environment, and reads their progress from their output.

_LAST_LINES = 40
_INSTALL_POLL = 0.5  # seconds between two checks of how much is installed
_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)


class InstallerFailed(Exception):  # noqa: N818  named for what happened
    """A program ended with an error; `output` are its last lines."""

    def __init__(self, command: str, output: str) -> None:
        super().__init__(f"{command} failed: {output}")
        self.command = command
        self.output = output


class Installer:
    """Runs programs one after the other; each ends when this process ends.

    They hold the lock, a descriptor, as this process does.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self._temporary = folder / "tmp"
        self._lock = lock

    async def pip_install(self, environment: RayEnvironment, progress: Progress) -> None:
        """Install everything that the lock file pins: wheels only, hashes checked.

        Raises:
            InstallerFailed: with the output.
        """
        installing = _Installing(environment, progress)
        words = ("--no-input", "--disable-pip-version-check", "--no-color", "--progress-bar=off")
        rules = ("--require-hashes", "--no-deps", "--only-binary=:all:")
        try:
            await self.run(
                *(str(environment.python), "-I", "-m", "pip", "install", *words, *rules),
                *("-r", str(environment.lock)),
                on_line=installing.saw,
            )
        finally:
            installing.close()

    async def run(self, *command: str, on_line: Callable[[str], None] | None = None) -> None:
        """Run one program to its end.

        Raises:
            InstallerFailed: its exit status was not 0.
            OSError: it cannot be started.
        """
        self._temporary.mkdir(parents=True, exist_ok=True)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ | {"TMPDIR": str(self._temporary), "LC_ALL": "C.UTF-8"},
            pass_fds=(self._lock,),
            preexec_fn=_end_with_parent,
            start_new_session=True,  # this process handles Ctrl-C itself
        )
        last: deque[str] = deque(maxlen=_LAST_LINES)
        try:
            assert process.stdout is not None
            async for line in process.stdout:
                last.append(line.decode(errors="replace").rstrip())
                if on_line:
                    on_line(last[-1])
            status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await asyncio.shield(process.wait())
        if status:
            raise InstallerFailed(" ".join(command), "\n".join(last))

    def tidy(self) -> None:
        """Remove the programs' temporary files."""
        shutil.rmtree(self._temporary, ignore_errors=True)


class _Installing:
    """Progress of pip, which names what it collects and then installs silently."""

    def __init__(self, environment: RayEnvironment, progress: Progress) -> None:
        self._site = environment.folder / "lib"
        self._total = sum("==" in line for line in environment.lock.read_text().splitlines())
        self._collected = 0
        self._progress = progress
        self._watching: asyncio.Task[None] | None = None

    def saw(self, line: str) -> None:
        """Process a line of pip's output."""
        if line.startswith("Ignoring "):
            self._total -= 1
        elif line.startswith("Collecting "):
            self._collected += 1
            self._progress.advance(self._collected, self._total)
        elif line.startswith("Installing collected packages"):
            self._progress.step("installing it (about 500 MB)")
            self._watching = asyncio.create_task(self._watch())

    def close(self) -> None:
        """Stop watching."""
        if self._watching:
            self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            done = len(list(self._site.glob("*/site-packages/*.dist-info")))
            self._progress.advance(min(done, self._total), self._total)
            await asyncio.sleep(_INSTALL_POLL)


def _end_with_parent() -> None:
    """Let the kernel kill this process when ours ends; runs between fork and exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


# Creates the environment with Ray: once, completely or not at all, under a lock.
#
# A virtual environment cannot be moved, so it is created in its place and marked at the end; an
# unmarked one is removed first. The installer holds the same lock as this process and ends with it,
# so no other run begins while the installer of an interrupted run still writes.

_SPACE = 800_000_000  # bytes: the environment, and the downloads beside it
_LOCK_POLL = 0.5  # seconds until the lock is tried again: it cannot be waited for


async def create_ray_environment(environment: RayEnvironment, progress: Progress) -> None:
    """Create `environment` unless it is complete.

    Cancellation ends the installer and removes the partial environment.

    Raises:
        ConfigurationError: it cannot be created; the message says why and names a remedy.
    """
    if environment.is_complete():
        return
    folder = environment.folder
    try:
        async with _exclusive_lock(folder.with_name(f"{folder.name}.lock"), progress) as lock:
            if not environment.is_complete():
                await _make(environment, progress, lock)
    except InstallerFailed as failure:
        raise ConfigurationError(remedy(failure, environment)) from failure
    except OSError as error:
        raise ConfigurationError(
            f"cannot create an environment with Ray in {folder}: {error.strerror or error}; "
            "set XDG_CACHE_HOME to a folder that you may write to"
        ) from error


@asynccontextmanager
async def _exclusive_lock(path: Path, progress: Progress) -> AsyncGenerator[int]:
    """Hold the lock file `path`; yields its descriptor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        if not _locked(descriptor):
            progress.step("another manta is making the environment with Ray; waiting for it")
            while not _locked(descriptor):  # noqa: ASYNC110  there is nothing else to wait for
                await asyncio.sleep(_LOCK_POLL)
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _make(environment: RayEnvironment, progress: Progress, lock: int) -> None:
    folder = environment.folder
    await _remove(folder)
    _check_space(folder)
    done = False
    try:
        await _install(environment, progress, Installer(folder, lock))
        environment.mark_complete()
        done = True
    finally:
        if not done:
            await asyncio.shield(_remove(folder))


async def _install(environment: RayEnvironment, progress: Progress, installer: Installer) -> None:
    folder, version = environment.folder, environment.pins["ray"]
    progress.step(f"making an environment for Python {python_version()} in {folder}")
    await installer.run(sys.executable, "-m", "venv", str(folder))
    progress.step(f"downloading Ray {version} (about 150 MB, once)")
    await installer.pip_install(environment, progress)
    progress.step("trying it")
    await installer.run(str(environment.python), "-I", "-c", "import ray")
    installer.tidy()


def _check_space(folder: Path) -> None:
    """Check the free disk space.

    Raises:
        ConfigurationError: there is too little.
    """
    free = shutil.disk_usage(folder.parent).free
    if free < _SPACE:
        raise ConfigurationError(
            f"an environment with Ray needs about {_SPACE // 1_000_000} MB, and {folder.parent} "
            f"has {free // 1_000_000} MB left; free some, or set XDG_CACHE_HOME to a folder "
            "elsewhere"
        )


async def _remove(folder: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def main() -> int:
    """Create the environment; returns the exit status."""
    environment = ray_environment()
    try:
        asyncio.run(create_ray_environment(environment, Progress()))
    except ConfigurationError as error:
        sys.stderr.write(f"manta: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(f"{environment.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
