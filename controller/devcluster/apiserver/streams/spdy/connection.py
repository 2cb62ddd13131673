"""One SPDY connection in the view of its server: streams that the client opens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.streams.spdy.frames import (
    DATA,
    FIN,
    GOAWAY,
    HEADERS,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    Frame,
    FrameDecoder,
    HeaderDecoder,
    HeaderEncoder,
    SpdyError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.devcluster.apiserver.streams.connections import ByteStream

_WAITING = 1024 * 1024
"""Maximum unread bytes of a stream; beyond it the whole connection waits."""
_STREAMS = 4096
"""Maximum streams that may be open at once."""
_REFUSED, _PROTOCOL_ERROR = 3, 1  # codes of RST_STREAM and GOAWAY
_PING = 20.0  # seconds; a client that has gone is noticed by what cannot be sent to it


class SpdyStream:
    """A stream that the client has opened.

    Attributes:
        headers: headers of the stream, with lower-case names.
        has_ended: whether this side's half has ended, or the client has reset the stream.
    """

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.has_ended = False
        self._connection = connection
        self._number = number
        self._received = bytearray()
        self._changed = asyncio.Condition()
        self._is_complete = False

    @property
    def is_closed(self) -> bool:
        """True if both halves have ended."""
        return self._is_complete and self.has_ended

    async def receive(self) -> bytes:
        """Return the next data from the client; empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._received or self._is_complete)
            data = bytes(self._received)
            self._received.clear()
            self._changed.notify_all()
            return data

    async def send(self, data: bytes) -> None:
        """Send data; does nothing after the end or a reset."""
        if not self.has_ended:
            await self._connection.send(Frame(DATA, self._number, 0, data))

    async def end(self) -> None:
        """End this side's half; further data of the client is dropped."""
        if not self.has_ended:
            await self.drop()
            await self._connection.send(Frame(DATA, self._number, FIN, b""))

    async def take(self, data: bytes) -> None:
        """Take data that the client has sent; wait while too much is unread."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._received) < _WAITING or self.has_ended)
            if not (self._is_complete or self.has_ended):
                self._received += data
                self._changed.notify_all()

    async def complete(self) -> None:
        """Record that the client's half has ended."""
        async with self._changed:
            self._is_complete = True
            self._changed.notify_all()

    async def drop(self) -> None:
        """Record that nothing can be sent any more."""
        async with self._changed:
            self.has_ended = True
            self._changed.notify_all()


class SpdyConnection:
    """Answers the frames of a client.

    Args:
        pipe: the client's end.
        accept: called with each new stream; may raise `SpdyError`.
    """

    def __init__(self, pipe: ByteStream, accept: Callable[[SpdyStream], None]) -> None:
        self._pipe = pipe
        self._accept = accept
        self._frames = FrameDecoder()
        self._decoder = HeaderDecoder()
        self._encoder = HeaderEncoder()
        self._streams: dict[int, SpdyStream] = {}
        self._newest = 0

    async def serve(self) -> None:
        """Take frames until the client has gone or ends the connection.

        Raises:
            SpdyError: they are not SPDY/3.1.
        """
        pinging = asyncio.create_task(self._ping())
        try:
            while (data := await self._pipe.receive()) is not None:
                for frame in self._frames.feed(data):
                    if frame.kind == GOAWAY:
                        return
                    await self._take(frame)
        except SpdyError:
            await self.send(Frame.farewell(self._newest, _PROTOCOL_ERROR))
            raise
        finally:
            pinging.cancel()
            await asyncio.wait({pinging})

    async def send(self, frame: Frame) -> None:
        """Send a frame."""
        await self._pipe.send(frame.encode())

    async def _ping(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(_PING)
            number = (number + 2) % 2**32
            await self.send(Frame.ping(number))

    async def _take(self, frame: Frame) -> None:
        if frame.kind == PING:
            if frame.payload[-1] % 2:  # the client's; an even one answers ours
                await self.send(frame)
        elif frame.kind == SYN_STREAM:
            await self._open(frame)
        elif frame.kind in {SYN_REPLY, HEADERS}:
            self._decoder.headers(frame.payload[4:])  # all headers are compressed as one
        elif stream := self._streams.get(frame.stream):
            if frame.kind == RST_STREAM:
                await stream.drop()
            elif frame.kind == DATA:
                await stream.take(frame.payload)
            if frame.kind == RST_STREAM or (frame.kind == DATA and frame.is_last):
                await stream.complete()

    async def _open(self, frame: Frame) -> None:
        headers = self._decoder.headers(frame.payload[10:])
        if frame.stream % 2 == 0 or frame.stream <= self._newest:
            raise SpdyError(f"stream {frame.stream} after stream {self._newest}")
        self._newest = frame.stream
        self._streams = {n: one for n, one in self._streams.items() if not one.is_closed}
        if len(self._streams) >= _STREAMS:
            await self.send(Frame.reset(frame.stream, _REFUSED))
            return
        stream = SpdyStream(self, frame.stream, headers)
        self._streams[frame.stream] = stream
        await self.send(self._encoder.reply(frame.stream))
        self._accept(stream)
        if frame.is_last:
            await stream.complete()
