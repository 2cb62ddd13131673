"""Creates the environment with Ray: once, completely or not at all, under a lock.

A virtual environment cannot be moved, so it is created in its place and marked at the end; an
unmarked one is removed first. The installer holds the same lock as this process and ends with it,
so no other run begins while the installer of an interrupted run still writes.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from controller.command.development.rayenv.environment import python_version
from controller.command.development.rayenv.installer import Installer, InstallerFailed
from controller.command.development.rayenv.remedies import remedy
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from controller.command.development.rayenv.environment import RayEnvironment
    from controller.command.development.rayenv.progress import ProgressDisplay

_SPACE = 800_000_000  # bytes: the environment, and the downloads beside it
_LOCK_POLL = 0.5  # seconds until the lock is tried again: it cannot be waited for


async def create_ray_environment(environment: RayEnvironment, progress: ProgressDisplay) -> None:
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
async def _exclusive_lock(path: Path, progress: ProgressDisplay) -> AsyncGenerator[int]:
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


async def _make(environment: RayEnvironment, progress: ProgressDisplay, lock: int) -> None:
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


async def _install(
    environment: RayEnvironment, progress: ProgressDisplay, installer: Installer
) -> None:
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
