"""The output of containers in memory: the last lines of each run, with their times.

The lines of the last two runs of each container are kept, at most `LARGEST` bytes of each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from controller.apimachinery.conditions import rfc3339_micro

LARGEST = 10 * 1024 * 1024
LONGEST_LINE = 16 * 1024
_CHUNK = 64 * 1024


class Line(NamedTuple):
    """A line with its end, or a part of a line that was too long."""

    moment: str
    text: bytes


class Output:
    """The output of one run of a container: written here, read by `ProcessLogs`.

    Attributes:
        first: number of the oldest line that is kept.
    """

    def __init__(self, wall: Callable[[], datetime], *, largest: int = LARGEST) -> None:
        self._wall = wall
        self._largest = largest
        self._lines: list[Line] = []
        self._size = 0
        self._changed = asyncio.Event()
        self.first = 0
        self.is_closed = False

    @property
    def end(self) -> int:
        """The number of the next line."""
        return self.first + len(self._lines)

    def lines(self, start: int) -> list[Line]:
        """Return the lines from a number on, without those that are not kept any more."""
        return self._lines[max(0, start - self.first) :]

    def write(self, text: bytes, *, is_whole: bool = True) -> None:
        """Add a line without its end."""
        line = Line(rfc3339_micro(self._wall()), text + b"\n" if is_whole else text)
        self._lines.append(line)
        self._size += len(line.text)
        if self._size > self._largest:
            dropped = self._lines[: -(len(self._lines) // 2)]
            del self._lines[: len(dropped)]
            self.first += len(dropped)
            self._size -= sum(len(each.text) for each in dropped)
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """Mark the output as complete."""
        self.is_closed = True
        self._changed.set()

    async def next_change(self) -> None:
        """Wait until there is more, or until it is closed."""
        if not self.is_closed:
            await self._changed.wait()

    def last_bytes(self, count: int) -> bytes:
        """Return the end of the output, without times and its last line's end."""
        return b"".join(line.text for line in self._lines[-count:]).rstrip(b"\n")[-count:]


class Pipe:
    """The reading end of a process's standard output or error, split into lines of an `Output`.

    Attributes:
        writer: file descriptor to be given to the process, and to be closed here after its start.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._rest = b""
        self._ended = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self._reader, self._read)

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
        while self._reader >= 0 and self._read():
            pass
        self._end()

    def _read(self) -> bool:
        """Take one chunk; return whether there was one."""
        try:
            chunk = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._end()
            return False
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._output.write(self._cut(line))
        self._rest = self._cut(self._rest)
        return True

    def _cut(self, line: bytes) -> bytes:
        """Write the parts of a line that is too long; return the last one."""
        while len(line) > LONGEST_LINE:
            self._output.write(line[:LONGEST_LINE], is_whole=False)
            line = line[LONGEST_LINE:]
        return line

    def _end(self) -> None:
        if self._reader < 0:
            return
        asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)
        self._reader = -1
        if self._rest:
            self._output.write(self._rest, is_whole=False)
        if not self._ended.done():
            self._ended.set_result(None)


class Outputs:
    """The outputs of all containers."""

    def __init__(self, wall: Callable[[], datetime]) -> None:
        self._wall = wall
        self._runs: dict[tuple[str, str], list[Output]] = {}

    def begin(self, pod_uid: str, container: str) -> Output:
        """Return the output of a new run."""
        runs = self._runs.setdefault((pod_uid, container), [])
        runs.append(Output(self._wall))
        del runs[:-2]
        return runs[-1]

    def abandon(self, pod_uid: str, container: str) -> None:
        """Discard the output of a run that did not start."""
        self._runs[pod_uid, container].pop()

    def find(self, pod_uid: str, container: str, *, previous: bool = False) -> Output | None:
        """Return the output of the last run, or of the one before it."""
        runs = self._runs.get((pod_uid, container), [])
        position = 2 if previous else 1
        return runs[-position] if len(runs) >= position else None

    def forget(self, pod_uid: str) -> None:
        """Discard the output of a pod's containers."""
        for key in [key for key in self._runs if key[0] == pod_uid]:
            for output in self._runs.pop(key):
                output.close()
