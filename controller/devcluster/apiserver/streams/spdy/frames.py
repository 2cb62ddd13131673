"""Frames of SPDY/3.1 (draft-mbelshe-httpbis-spdy-00, 2.2 and 2.6)."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from controller.devcluster.apiserver.streams.spdy.dictionary import DICTIONARY

DATA, SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY, HEADERS = 0, 1, 2, 3, 6, 7, 8
FIN = 1
_CONTROL = 0x8003
_LARGEST = 64 * 1024
"""Maximum bytes of a control frame, or of headers once inflated; data has up to 2^24 - 1."""
_SIZES = {SYN_STREAM: 10, SYN_REPLY: 4, RST_STREAM: 8, PING: 4, GOAWAY: 8, HEADERS: 4}
"""Minimum bytes of a control frame."""


class SpdyError(Exception):
    """The client does not speak SPDY/3.1."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame.

    Attributes:
        kind: its type; `DATA` for data.
        stream: the stream it belongs to; 0 for those of the whole connection.
        flags: such as `FIN`.
        payload: the data, or what follows the header.
    """

    kind: int
    stream: int
    flags: int
    payload: bytes

    @classmethod
    def ping(cls, number: int) -> Frame:
        """Return a frame that asks for the same frame in answer; the server's numbers are even."""
        return cls(PING, 0, 0, number.to_bytes(4, "big"))

    @classmethod
    def reset(cls, stream: int, code: int) -> Frame:
        """Return a frame that ends both halves of a stream."""
        return cls(RST_STREAM, stream, 0, struct.pack(">II", stream, code))

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
