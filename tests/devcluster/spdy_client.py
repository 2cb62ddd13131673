"""The client's end of a SPDY connection."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from devcluster.apiserver.spdy import (
    DATA,
    DICTIONARY,
    FIN,
    RST_STREAM,
    SYN_STREAM,
    Frame,
    FrameDecoder,
)


def reset(stream: int) -> Frame:
    """A frame that ends both halves of a stream."""
    return Frame(RST_STREAM, stream, 0, struct.pack(">II", stream, 1))


class Client:
    """The client's end; it sends everything in small pieces."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.replies: list[tuple[int, int]] = []
        self.data: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.changed = asyncio.Event()
        self.is_cut = asyncio.Event()
        self._decoder = FrameDecoder()
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    async def receive(self) -> bytes | None:
        return await self.pieces.get()

    async def send(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            if frame.kind == DATA:
                self.data[frame.stream] = self.data.get(frame.stream, b"") + frame.payload
                if frame.is_last:
                    self.ended.add(frame.stream)
            else:
                self.replies.append((frame.kind, frame.stream))
        self.changed.set()

    def put(self, frame: Frame) -> None:
        whole = frame.encode()
        for start in range(0, len(whole), 1000):
            self.pieces.put_nowait(whole[start : start + 1000])

    def open(self, stream: int, kind: str, port: int = 0, request: int = 0) -> None:
        self.put(self.opening(stream, streamType=kind, port=str(port), requestID=str(request)))

    def open_pair(self, error: int, data: int, port: int, request: int = 0) -> None:
        self.open(error, "error", port, request)
        self.open(data, "data", port, request)

    def opening(self, stream: int, **headers: str) -> Frame:
        words = [word.encode() for pair in headers.items() for word in pair]
        block = struct.pack(">I", len(headers))
        block += b"".join(struct.pack(">I", len(word)) + word for word in words)
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        head = struct.pack(">IIBB", stream, 0, 0, 0)
        return Frame(SYN_STREAM, stream, 0, head + packed)

    def write(self, stream: int, data: bytes, *, last: bool = False) -> None:
        self.put(Frame(DATA, stream, FIN if last else 0, data))

    async def until_ended(self, *streams: int) -> None:
        await self._until(lambda: set(streams) <= self.ended)

    async def until_data(self, stream: int) -> None:
        await self._until(lambda: bool(self.data.get(stream)))

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not reached():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def upgraded(port: int, path: str, version: str) -> AsyncGenerator[Client]:
    """A client whose connection was upgraded to SPDY."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: Upgrade\r\n"
        f"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {version}\r\n\r\n".encode()
    )
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert head.startswith("http/1.1 101 "), head
    assert "upgrade: spdy/3.1\r\n" in head
    assert f"x-stream-protocol-version: {version}\r\n" in head
    client = Client()
    passing = asyncio.create_task(_pass_on(client, reader, writer))
    try:
        yield client
    finally:
        passing.cancel()
        writer.transport.abort()


async def _pass_on(
    client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    async def write() -> None:
        while piece := await client.pieces.get():
            writer.write(piece)
            await writer.drain()
        writer.close()

    writing = asyncio.create_task(write())
    try:
        while data := await reader.read(1 << 16):
            await client.send(data)
        client.is_cut.set()
    finally:
        writing.cancel()
