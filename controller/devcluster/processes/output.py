"""The output of containers on disk: one file for each run, each line with its time.

The lines are those of the container runtime interface: `2026-08-20T10:00:00.123456Z stdout F text`,
`P` instead of `F` for a part of a line that was too long. Two files of at most
`LARGEST_FILE` bytes are kept of each run, and the last two runs of each container.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from controller.apimachinery.conditions import rfc3339_micro

LARGEST_FILE = 10 * 1024 * 1024
LONGEST_LINE = 16 * 1024
_CHUNK = 64 * 1024


class Output:
    """The output of one run of a container: written here, read by `ProcessLogs`.

    Attributes:
        generation: number of files before the current one.
    """

    def __init__(
        self, path: Path, wall: Callable[[], datetime], *, largest: int = LARGEST_FILE
    ) -> None:
        self._path = path
        self._wall = wall
        self._largest = largest
        self._file: BinaryIO = path.open("ab", buffering=0)
        self.size = 0
        self._changed = asyncio.Event()
        self.generation = 0
        self.is_closed = False
        self.is_removed = False

    def write(self, stream: str, text: bytes, *, is_whole: bool = True) -> None:
        """Add a line without its end."""
        moment = rfc3339_micro(self._wall())
        line = f"{moment} {stream} {'F' if is_whole else 'P'} ".encode() + text + b"\n"
        if self.size and self.size + len(line) > self._largest:
            self._rotate()
        self._file.write(line)
        self.size += len(line)
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """Mark the output as complete."""
        if not self.is_closed:
            self.is_closed = True
            self._file.close()
            self._changed.set()

    async def next_change(self) -> None:
        """Wait until there is more, or until it is closed."""
        if not self.is_closed:
            await self._changed.wait()

    def file(self, generation: int) -> Path | None:
        """Return the path of a generation's lines, None if they are deleted."""
        if self.is_removed:
            return None
        if generation == self.generation:
            return self._path
        return self._before if generation == self.generation - 1 else None

    def last_bytes(self, count: int) -> bytes:
        """Return the end of the output, without times."""
        with self._path.open("rb") as file:
            file.seek(max(0, self.size - 2 * count))
            lines = file.read().splitlines()
        texts = [line.split(b" ", 3)[-1] for line in lines[1 if self.size > 2 * count else 0 :]]
        return b"\n".join(texts)[-count:]

    def remove(self) -> None:
        """Close it and delete its files."""
        self.close()
        self.is_removed = True
        self._path.unlink(missing_ok=True)
        self._before.unlink(missing_ok=True)

    @property
    def _before(self) -> Path:
        return self._path.with_suffix(".before")

    def _rotate(self) -> None:
        self._file.close()
        self._path.replace(self._before)
        self._file = self._path.open("ab", buffering=0)
        self.size = 0
        self.generation += 1


class Pipe:
    """The reading end of a process's standard output or error, split into lines of an `Output`.

    Attributes:
        writer: file descriptor to be given to the process, and to be closed here after its start.
    """

    def __init__(self, stream: str, output: Output) -> None:
        self._stream = stream
        self._output = output
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._rest = b""
        self._ended = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self._reader, self._readable)

    def started(self) -> None:
        """Close our copy of the writing end after the process has started."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    async def drained(self, seconds: float) -> None:
        """Wait until all writers have ended, at most `seconds`; then stop reading."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._ended)
        self.close()

    def close(self) -> None:
        """Read what is there, and stop reading."""
        self.started()
        if self._reader < 0:
            return
        while not self._ended.done() and self._read():
            pass
        self._end()

    def _readable(self) -> None:
        self._read()

    def _read(self) -> bool:
        """Take one chunk; return whether there was one."""
        try:
            chunk = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._end()
            return False
        self._take(chunk)
        return True

    def _take(self, chunk: bytes) -> None:
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._write(line, is_whole=True)
        while len(rest) > LONGEST_LINE:
            self._output.write(self._stream, rest[:LONGEST_LINE], is_whole=False)
            rest = rest[LONGEST_LINE:]
        self._rest = rest

    def _write(self, line: bytes, *, is_whole: bool) -> None:
        while len(line) > LONGEST_LINE:
            self._output.write(self._stream, line[:LONGEST_LINE], is_whole=False)
            line = line[LONGEST_LINE:]
        self._output.write(self._stream, line, is_whole=is_whole)

    def _end(self) -> None:
        if self._reader < 0:
            return
        asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)
        self._reader = -1
        if self._rest:
            self._write(self._rest, is_whole=False)
            self._rest = b""
        if not self._ended.done():
            self._ended.set_result(None)


class Outputs:
    """The outputs of all containers."""

    def __init__(self, root: Path, wall: Callable[[], datetime]) -> None:
        self._root = root
        self._wall = wall
        self._runs: dict[tuple[str, str], list[Output]] = {}
        self._numbers = itertools.count()

    def begin(self, pod_uid: str, container: str) -> Output:
        """Return the output of a new run.

        Raises:
            OSError: its file cannot be made.
        """
        folder = self._root / pod_uid / container
        folder.mkdir(parents=True, exist_ok=True)
        output = Output(folder / f"{next(self._numbers)}.log", self._wall)
        runs = self._runs.setdefault((pod_uid, container), [])
        runs.append(output)
        while len(runs) > 2:
            runs.pop(0).remove()
        return output

    def abandon(self, pod_uid: str, container: str) -> None:
        """Discard the output of a run that did not start."""
        self._runs[pod_uid, container].pop().remove()

    def find(self, pod_uid: str, container: str, *, previous: bool = False) -> Output | None:
        """Return the output of the last run, or of the one before it."""
        runs = self._runs.get((pod_uid, container), [])
        position = 2 if previous else 1
        return runs[-position] if len(runs) >= position else None

    def forget(self, pod_uid: str) -> None:
        """Delete the output of a pod's containers."""
        for key in [key for key in self._runs if key[0] == pod_uid]:
            for output in self._runs.pop(key):
                output.remove()
        shutil.rmtree(self._root / pod_uid, ignore_errors=True)
