"""Runs the programs that create an environment, and reads their progress from their output."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import signal
import sys
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from controller.command.development.rayenv.environment import RayEnvironment
    from controller.command.development.rayenv.progress import ProgressDisplay

_LAST_LINES = 40
_INSTALL_POLL = 0.5  # seconds between two checks of how much is installed
_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)


class InstallerFailed(Exception):  # noqa: N818  named for what happened
    """A program ended with an error.

    Attributes:
        command: what ran.
        output: its last lines.
    """

    def __init__(self, command: str, output: str) -> None:
        super().__init__(f"{command} failed: {output}")
        self.command = command
        self.output = output


class Installer:
    """Runs programs one after the other; each ends when this process ends.

    Args:
        folder: folder of the environment, also used for temporary files.
        lock: descriptor of a held lock, which the programs hold as well.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self._temporary = folder / "tmp"
        self._lock = lock

    async def pip_install(self, environment: RayEnvironment, progress: ProgressDisplay) -> None:
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

    def __init__(self, environment: RayEnvironment, progress: ProgressDisplay) -> None:
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
