"""One SPDY connection as its server sees it: streams that the client opens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.spdy.frames import (
    DATA,
    FIN,
    GOAWAY,
    PING,
    RST_STREAM,
    SYN_STREAM,
    Frame,
    FrameDecoder,
    HeaderDecoder,
    HeaderEncoder,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_WAITING = 64
"""Messages of a stream that wait for its reader; then the whole connection waits."""


class SpdyStream:
    """A stream that the client has opened.

    Attributes:
        headers: what it was opened with, names in lower case.
    """

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self._connection = connection
        self._number = number
        self._received: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._ended = False

    async def receive(self) -> bytes:
        """The next data from the client; empty at the end."""
        if self._ended:
            return b""
        data = await self._received.get()
        self._ended = not data
        return data

    async def send(self, data: bytes) -> None:
        """Send data."""
        await self._connection.send(Frame(DATA, self._number, 0, data))

    async def end(self) -> None:
        """End this side's half."""
        await self._connection.send(Frame(DATA, self._number, FIN, b""))

    async def take(self, data: bytes) -> None:
        """Called with what the client has sent; empty at the end."""
        if not self._ended:
            await self._received.put(data)


class SpdyConnection:
    """Answers frames.

    Args:
        write: sends bytes to the client.
        accept: called with each new stream.
    """

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], accept: Callable[[SpdyStream], None]
    ) -> None:
        self._write = write
        self._accept = accept
        self._frames = FrameDecoder()
        self._decoder = HeaderDecoder()
        self._encoder = HeaderEncoder()
        self._streams: dict[int, SpdyStream] = {}

    async def feed(self, data: bytes) -> bool:
        """Take bytes from the client; returns whether more may come.

        Raises:
            SpdyError: they are not SPDY/3.1.
        """
        for frame in self._frames.feed(data):
            if frame.kind == GOAWAY:
                return False
            await self._take(frame)
        return True

    async def send(self, frame: Frame) -> None:
        """Send a frame."""
        await self._write(frame.encode())

    async def _take(self, frame: Frame) -> None:
        if frame.kind == PING:
            await self.send(frame)
        elif frame.kind == SYN_STREAM:
            stream = SpdyStream(self, frame.stream, self._decoder.headers(frame))
            self._streams[frame.stream] = stream
            await self.send(self._encoder.reply(frame.stream))
            self._accept(stream)
            if frame.is_last:
                await self._end(frame.stream)
        elif frame.kind == RST_STREAM:
            await self._end(frame.stream)
        elif frame.kind == DATA and (stream := self._streams.get(frame.stream)):
            if frame.payload:
                await stream.take(frame.payload)
            if frame.is_last:
                await self._end(frame.stream)

    async def _end(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            await stream.take(b"")
