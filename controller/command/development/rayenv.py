"""The environment with a pinned Ray that `manta dev --ray` and `make demo KIND=rayjob` run.

It is made once, from `ray.lock`; `python -m controller.command.development.rayenv` makes it too and
prints its folder.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import platform
import re
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from controller.command.development.runs import cache_dir, try_lock
from controller.kube.errors import ConfigurationError

LOCK = Path(__file__).with_name("ray.lock")

VARIABLES: Mapping[str, str] = {
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
    cache = cache_dir(environment)
    return RayEnvironment(cache / f"ray-{RayEnvironment(cache, LOCK).pins['ray']}", LOCK)


# Creates the environment: once, completely or not at all, under a lock.
#
# A virtual environment cannot be moved, so it is created in its place and marked at the end; an
# unmarked one is removed first. The programs that create it hold the same lock as this process and
# end with it, so no other run begins while those of an interrupted run still write.

_SPACE = 800_000_000  # bytes: the environment, and the downloads beside it
_LOCK_POLL = 0.5  # seconds until the lock is tried again: it cannot be waited for
_STANDARD_ERROR = 2
_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)
_PIP = ("-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check")
_RULES = ("--require-hashes", "--no-deps", "--only-binary=:all:")


async def create_ray_environment(environment: RayEnvironment) -> None:
    """Create `environment` unless it is complete; what the programs print goes to standard error.

    Cancellation ends them and removes the partial environment.

    Raises:
        ConfigurationError: it cannot be created; the message says why and names a remedy.
    """
    if environment.is_complete():
        return
    folder = environment.folder
    try:
        async with _exclusive_lock(folder.with_name(f"{folder.name}.lock")) as lock:
            if not environment.is_complete():
                await _make(environment, lock)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create an environment with Ray in {folder}: {error.strerror or error}; "
            "set XDG_CACHE_HOME to a folder that you may write to"
        ) from error


@asynccontextmanager
async def _exclusive_lock(path: Path) -> AsyncGenerator[int]:
    """Hold the lock file `path`; yields its descriptor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        if not try_lock(descriptor):
            _report("another manta is making the environment with Ray; waiting for it")
            while not try_lock(descriptor):  # noqa: ASYNC110  there is nothing else to wait for
                await asyncio.sleep(_LOCK_POLL)
        yield descriptor
    finally:
        os.close(descriptor)


async def _make(environment: RayEnvironment, lock: int) -> None:
    folder, temporary = environment.folder, environment.folder / "tmp"
    await _remove(folder)
    _check_space(folder)
    try:
        temporary.mkdir(parents=True)
        for arguments in (
            (sys.executable, "-m", "venv", str(folder)),
            (str(environment.python), *_PIP, *_RULES, "-r", str(environment.lock)),
            (str(environment.python), "-I", "-c", "import ray"),
        ):
            await _run(arguments, environment, lock)
        await _remove(temporary)
        environment.mark_complete()
    except BaseException:
        await asyncio.shield(_remove(folder))
        raise


async def _run(arguments: Sequence[str], environment: RayEnvironment, lock: int) -> None:
    """Run a program to its end; it holds the lock, and ends when this process ends.

    Raises:
        ConfigurationError: its exit status was not 0.
    """
    _report(f"$ {' '.join(arguments)}")
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=_STANDARD_ERROR,
        env=os.environ | {"TMPDIR": str(environment.folder / "tmp")},
        pass_fds=(lock,),
        preexec_fn=_end_with_parent,
        start_new_session=True,  # this process handles Ctrl-C itself
    )
    try:
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.wait())
    if status:
        raise ConfigurationError(
            f"cannot create an environment with Ray {environment.pins['ray']}: the last command "
            "failed, and what it printed stands above. It needs the package index (HTTPS_PROXY "
            "and PIP_INDEX_URL lead to it), python3-venv on Debian and Ubuntu, about 800 MB (in "
            f"XDG_CACHE_HOME), and a Ray for Python {platform.python_version()} on "
            f"{platform.system()} {platform.machine()}. Or give an environment that you have: "
            "--image rayproject/ray=PATH"
        )


def _end_with_parent() -> None:
    """Let the kernel kill this process when ours ends; runs between fork and exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


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


def _report(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> int:
    """Create the environment; returns the exit status."""
    environment = ray_environment()
    try:
        asyncio.run(create_ray_environment(environment))
    except ConfigurationError as error:
        _report(f"manta: {error}")
        return 2
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(f"{environment.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
