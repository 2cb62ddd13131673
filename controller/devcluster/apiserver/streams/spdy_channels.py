"""The channels of a command as streams of a SPDY connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.streams.connections import (
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    asks_for,
)
from controller.devcluster.apiserver.streams.spdy import SpdyConnection, SpdyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.devcluster.apiserver.streams.connections import ByteStream, Session
    from controller.devcluster.apiserver.streams.spdy import SpdyStream

_CHANNELS = {
    "stdin": STDIN,
    "stdout": STDOUT,
    "stderr": STDERR,
    "error": ERROR,
    "resize": RESIZE,
}
_OPENING = 30.0  # seconds until the client must have opened all streams
_FAREWELL = 5.0  # seconds that the client has to read the rest
_LINE = 1024  # bytes of a size of a terminal


def wanted_channels(query: Mapping[str, str]) -> frozenset[int]:
    """Return the channels that a client opens according to its parameters."""
    asked = {name for name in ("stdin", "stdout", "stderr", "tty") if asks_for(query, name)}
    if "tty" in asked:
        asked = asked - {"stderr"} | {"resize"}
    return frozenset(_CHANNELS[name] for name in asked - {"tty"} | {"error"})


class SpdyChannels:
    """Implements `Channels`.

    Args:
        pipe: the client's end.
        wanted: channels for which the client opens a stream; data on others is dropped.
    """

    def __init__(self, pipe: ByteStream, wanted: frozenset[int]) -> None:
        self._connection = SpdyConnection(pipe, self._accept)
        self._wanted = wanted
        self._streams: dict[int, SpdyStream] = {}
        self._complete = asyncio.Event()
        self._messages: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(1)

    async def serve(self, session: Session) -> None:
        """Serve a session until it ends; it is cancelled when the client has gone.

        Raises:
            SpdyError: the client does not speak SPDY/3.1, or opens other streams.
        """
        reading = asyncio.create_task(self._connection.serve())
        working = asyncio.create_task(self._work(session))
        try:
            await asyncio.wait({reading, working}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
                await asyncio.wait({reading}, timeout=_FAREWELL)
            if reading.done():
                reading.result()
        finally:
            reading.cancel()
            working.cancel()
            await asyncio.gather(reading, working, return_exceptions=True)

    async def receive(self) -> tuple[int, bytes] | None:
        """Implement `Channels.receive`."""
        return await self._messages.get()

    async def send(self, channel: int, data: bytes) -> None:
        """Implement `Channels.send`."""
        if stream := self._streams.get(channel):
            await stream.send(data)

    def _accept(self, stream: SpdyStream) -> None:
        name = stream.headers.get("streamtype", "")
        channel = _CHANNELS.get(name, -1)
        if channel not in self._wanted or channel in self._streams:
            raise SpdyError(f"an unexpected stream {name!r}")
        self._streams[channel] = stream
        if self._streams.keys() == self._wanted:
            self._complete.set()

    async def _work(self, session: Session) -> None:
        try:
            async with asyncio.timeout(_OPENING):
                await self._complete.wait()
        except TimeoutError as error:
            raise SpdyError("streams are missing") from error
        passing = [
            asyncio.create_task(pass_on(self._streams[channel]))
            for channel, pass_on in ((STDIN, self._pass_input), (RESIZE, self._pass_sizes))
            if channel in self._streams
        ]
        try:
            await session(self)
            for stream in self._streams.values():
                await stream.end()
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)

    async def _pass_input(self, stream: SpdyStream) -> None:
        while data := await stream.receive():
            await self._messages.put((STDIN, data))
        await self._messages.put((STDIN, b""))

    async def _pass_sizes(self, stream: SpdyStream) -> None:
        """Cut the stream into lines, by which clients separate sizes."""
        rest = b""
        while data := await stream.receive():
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[:_LINE]
            for line in filter(None, lines):
                await self._messages.put((RESIZE, line))
