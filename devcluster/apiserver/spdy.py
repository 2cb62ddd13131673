"""SPDY/3.1 as far as Kubernetes' clients speak it: streams with headers, without windows.

Their Go library neither sends nor obeys window updates; TCP makes each side wait for the other.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct


class ByteStream(Protocol):
    """The client's end of a connection of bytes."""

    async def receive(self) -> bytes | None:
        """Return the next bytes; None when the client has gone."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes; does nothing when the client has gone."""
        ...


_NAMES = (
    b"options,head,post,put,delete,trace,accept,accept-charset,accept-encoding,"
    b"accept-language,accept-ranges,age,allow,authorization,cache-control,connection,"
    b"content-base,content-encoding,content-language,content-length,content-location,"
    b"content-md5,content-range,content-type,date,etag,expect,expires,from,host,if-match,"
    b"if-modified-since,if-none-match,if-range,if-unmodified-since,last-modified,location,"
    b"max-forwards,pragma,proxy-authenticate,proxy-authorization,range,referer,retry-after,"
    b"server,te,trailer,transfer-encoding,upgrade,user-agent,vary,via,warning,"
    b"www-authenticate,method,get,status,200 OK,version,HTTP/1.1,url,public,set-cookie,"
    b"keep-alive,origin"
).split(b",")
_TEXT = (
    b"10010120120220520630030230330430530630740240540640740840941041141241341441541641"
    b"7502504505203 Non-Authoritative Information204 No Content301 Moved Permanently40"
    b"0 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error"
    b"501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept O"
    b"ct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,imag"
    b"e/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/"
    b"javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1"
    b",utf-,*,enq=0."
)


DICTIONARY = b"".join(len(name).to_bytes(4, "big") + name for name in _NAMES) + _TEXT


DATA, SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY, HEADERS = 0, 1, 2, 3, 6, 7, 8
FIN = 1
_CONTROL = 0x8003
_LARGEST = 64 * 1024
"""Maximum bytes of a control frame, or of headers once inflated; data has up to 2^24 - 1."""
_SIZES = {SYN_STREAM: 10, SYN_REPLY: 4, RST_STREAM: 8, PING: 4, GOAWAY: 8, HEADERS: 4}
"""Minimum bytes of a control frame."""


class SpdyError(Exception):
    """The client does not speak SPDY/3.1."""


class Frame(Struct, frozen=True):
    """A frame.

    Attributes:
        stream: the stream it belongs to; 0 for those of the whole connection.
    """

    kind: int
    stream: int
    flags: int
    payload: bytes

    @classmethod
    def farewell(cls, newest: int, code: int) -> Frame:
        """Return a frame that ends the connection and names its newest stream."""
        return cls(GOAWAY, 0, 0, struct.pack(">II", newest, code))

    @property
    def is_last(self) -> bool:
        """True if it ends the sender's half of its stream."""
        return bool(self.flags & FIN)

    def encode(self) -> bytes:
        """Return the bytes of the frame."""
        size = (self.flags << 24) | len(self.payload)
        if self.kind == DATA:
            return struct.pack(">II", self.stream, size) + self.payload
        return struct.pack(">HHI", _CONTROL, self.kind, size) + self.payload


class FrameDecoder:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are complete now.

        Raises:
            SpdyError: a frame has the wrong length, or is of another version.
        """
        self._buffer += data
        found: list[Frame] = []
        while len(self._buffer) >= 8:
            first, size = struct.unpack_from(">II", self._buffer)
            flags, length = size >> 24, size & 0xFFFFFF
            if first >> 31 and length > _LARGEST:
                raise SpdyError(f"a control frame of {length} bytes")
            if len(self._buffer) < 8 + length:
                break
            payload = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            found.append(_frame(first, flags, payload))
        return found


def _frame(first: int, flags: int, payload: bytes) -> Frame:
    if not first >> 31:
        return Frame(DATA, first, flags, payload)
    if first >> 16 != _CONTROL:
        raise SpdyError("another version")
    kind = first & 0xFFFF
    if len(payload) < _SIZES.get(kind, 0):
        raise SpdyError(f"a control frame of {len(payload)} bytes")
    stream = 0
    if kind in {SYN_STREAM, SYN_REPLY, RST_STREAM}:
        stream = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
    return Frame(kind, stream, flags, payload)


class HeaderDecoder:
    """Reads the headers of the streams of one connection, which are compressed as one."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def headers(self, packed: bytes) -> dict[str, str]:
        """Return the headers of a frame, with lower-case names.

        Raises:
            SpdyError: they cannot be read, or are too long.
        """
        try:
            block = self._inflate.decompress(packed, _LARGEST)
            words, position = _words(block, 4, 2 * int.from_bytes(block[:4], "big"))
        except (zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(f"unreadable headers: {error}") from error
        if position != len(block) or self._inflate.unconsumed_tail:
            raise SpdyError("unreadable headers")
        return dict(zip((name.lower() for name in words[::2]), words[1::2], strict=True))


def _words(block: bytes, position: int, count: int) -> tuple[list[str], int]:
    found: list[str] = []
    for _ in range(count):
        if position >= len(block):
            raise SpdyError("unreadable headers")
        length = int.from_bytes(block[position : position + 4], "big")
        found.append(block[position + 4 : position + 4 + length].decode())
        position += 4 + length
    return found, position


class HeaderEncoder:
    """Writes headers for one connection."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> Frame:
        """Return the answer to a `SYN_STREAM`: no headers."""
        block = self._deflate.compress(bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return Frame(SYN_REPLY, stream, 0, stream.to_bytes(4, "big") + block)


_WAITING = 1024 * 1024
"""Maximum unread bytes of a stream; beyond it the whole connection waits."""
_PROTOCOL_ERROR = 1  # code of GOAWAY


class SpdyStream:
    """A stream that the client has opened.

    Attributes:
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
        try:
            while (data := await self._pipe.receive()) is not None:
                for frame in self._frames.feed(data):
                    if frame.kind == GOAWAY:
                        return
                    await self._take(frame)
        except SpdyError:
            await self.send(Frame.farewell(self._newest, _PROTOCOL_ERROR))
            raise

    async def send(self, frame: Frame) -> None:
        """Send a frame."""
        await self._pipe.send(frame.encode())

    async def _take(self, frame: Frame) -> None:
        if frame.kind == PING:
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
        stream = SpdyStream(self, frame.stream, headers)
        self._streams[frame.stream] = stream
        await self.send(self._encoder.reply(frame.stream))
        self._accept(stream)
        if frame.is_last:
            await stream.complete()
