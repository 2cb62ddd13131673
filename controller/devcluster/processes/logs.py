"""Logs of process pods, read from the disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from controller.apimachinery.conditions import rfc3339_micro
from controller.devcluster.apiserver import ApiServer
from controller.devcluster.apiserver.messages import ApiRequest, ApiResponse, ResourcePath
from controller.devcluster.apiserver.status import bad_request
from controller.devcluster.logs import chosen_container, is_waiting, why_no_log
from controller.devcluster.processes.output import Output, Outputs

_PIECE = 64 * 1024


class LogOptions(Struct, frozen=True):
    """Options of a request for logs.

    Attributes:
        limit: maximum bytes, None for no limit.
    """

    tail: int | None
    since: str
    limit: int | None
    follow: bool
    timestamps: bool

    @classmethod
    def of(cls, query: Mapping[str, str], now: datetime) -> LogOptions:
        """Parse the parameters of a request.

        Raises:
            ApiError: 400, one of them is invalid.
        """
        seconds = _number(query, "sinceSeconds")
        since = query.get("sinceTime", "")
        if seconds is not None:
            since = (now - timedelta(seconds=seconds)).isoformat()
        return cls(
            tail=_number(query, "tailLines"),
            since=_moment(since) if since else "",
            limit=_number(query, "limitBytes"),
            follow=query.get("follow") == "true",
            timestamps=query.get("timestamps") == "true",
        )


class ProcessLogs:
    """Answers requests for the log of a pod: `server.hooks.pod_log`."""

    def __init__(self, server: ApiServer, outputs: Outputs, wall: Callable[[], datetime]) -> None:
        self._pods = server.store.table("pods")
        self._outputs = outputs
        self._wall = wall

    async def __call__(self, request: ApiRequest, where: ResourcePath) -> ApiResponse:
        """Return the log of one container; `follow` continues it until the container ends.

        Raises:
            ApiError: 400, there is no such container, or it has not started yet.
        """
        pod: dict[str, Any] = self._pods.items[f"{where.namespace}/{where.name}"].object
        name = chosen_container(pod, request.query.get("container", ""))
        previous = request.query.get("previous") == "true"
        wanted = LogOptions.of(request.query, self._wall())
        if why := why_no_log(pod, name, previous=previous):
            raise bad_request(why)
        earlier = previous and not is_waiting(pod, name)  # else the last run is the previous one
        output = self._outputs.find(pod["metadata"]["uid"], name, previous=earlier)
        if output is None:
            raise bad_request(f'the log of container "{name}" is no longer kept')
        return ApiResponse(200, read(output, wanted), {"content-type": "text/plain"})


async def read(output: Output, wanted: LogOptions) -> AsyncGenerator[bytes, None]:
    """Yield the requested part of an output, in pieces."""
    left = wanted.limit
    position = Position(output, wanted.tail)
    while True:
        for piece in _pieces(position.take(), wanted):
            yield piece[:left]
            if left is not None:
                left -= len(piece)
                if left <= 0:
                    return
            await asyncio.sleep(0)  # a long log must not block the event loop
        if not wanted.follow or (output.is_closed and position.is_at_end):
            return
        if position.is_at_end:
            await output.next_change()


def _pieces(lines: Iterator[bytes], wanted: LogOptions) -> Iterator[bytes]:
    piece = b""
    for line in lines:
        piece += _shown(line, wanted)
        if len(piece) > _PIECE:
            yield piece
            piece = b""
    if piece:
        yield piece


class Position:
    """The position of a reader in an output.

    Args:
        tail: number of lines before its end, None for all kept lines.
    """

    def __init__(self, output: Output, tail: int | None = None) -> None:
        self._output = output
        self._generation = output.generation
        self._offset = 0
        before = output.file(output.generation - 1) if output.generation else None
        if tail is not None:
            self._offset, missing = _start_of_tail(output.file(output.generation), tail)
            if missing and before:
                self._generation -= 1
                self._offset, _ = _start_of_tail(before, missing)
        elif before:
            self._generation -= 1

    @property
    def is_at_end(self) -> bool:
        """True if the reader has reached the current end."""
        here = (self._generation, self._offset)
        return self._output.is_removed or here == (self._output.generation, self._output.size)

    def take(self) -> Iterator[bytes]:
        """Yield the whole lines from here to the current end."""
        while True:
            path = self._output.file(self._generation)
            if path is not None:
                with path.open("rb") as file:
                    file.seek(self._offset)
                    for line in file:
                        self._offset += len(line)
                        yield line
            if self._generation >= self._output.generation:
                return
            self._generation = max(self._generation + 1, self._output.generation - 1)
            self._offset = 0


def _start_of_tail(path: Path | None, lines: int) -> tuple[int, int]:
    """Return the offset of the last `lines` lines of a file, and how many lines it lacks."""
    if path is None:
        return 0, lines
    with path.open("rb") as file:
        start = end = file.seek(0, os.SEEK_END)
        if not lines:
            return end, 0
        while start:
            size = min(_PIECE, start)
            start -= size
            file.seek(start)
            chunk = file.read(size)
            stop = len(chunk) - 1 if start + size == end else len(chunk)
            while (stop := chunk.rfind(b"\n", 0, stop)) >= 0:
                lines -= 1
                if not lines:
                    return start + stop + 1, 0
    return 0, lines - (end > 0)


def _shown(line: bytes, wanted: LogOptions) -> bytes:
    """Return a line for the client, empty if it is filtered out."""
    moment, _stream, kind, text = line.split(b" ", 3)
    if moment.decode() < wanted.since:
        return b""
    if kind == b"P":
        text = text[:-1]
    return moment + b" " + text if wanted.timestamps else text


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not text.isdecimal():
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a whole number, 0 or more")
    return int(text)


def _moment(text: str) -> str:
    """Return a time in the files' format."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise bad_request(f"sinceTime: Invalid value: {text!r}: not a time") from error
    return rfc3339_micro(moment)
