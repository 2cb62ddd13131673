"""`kubectl port-forward`: SPDY streams that become connections."""

from __future__ import annotations

import asyncio
import struct
import zlib
from contextlib import asynccontextmanager

import pytest

from controller.devcluster.apiserver.port_forward import PortForward
from controller.devcluster.apiserver.spdy import SpdyError
from controller.devcluster.apiserver.spdy.dictionary import DICTIONARY
from controller.devcluster.apiserver.spdy.frames import (
    DATA,
    FIN,
    GOAWAY,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    Frame,
    FrameDecoder,
)

pytestmark = pytest.mark.real_time


def test_the_dictionary_is_that_of_the_standard():
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


class Client:
    """The client's end; it sends everything in small pieces."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.replies: list[tuple[int, int]] = []
        self.data: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.changed = asyncio.Event()
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

    def open(self, stream: int, kind: str, port: int, request: int = 0) -> None:
        headers = {"streamType": kind, "port": str(port), "requestID": str(request)}
        words = [word.encode() for pair in headers.items() for word in pair]
        block = struct.pack(">I", len(headers))
        block += b"".join(struct.pack(">I", len(word)) + word for word in words)
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        head = struct.pack(">IIBB", stream, 0, 0, 0)
        self.put(Frame(SYN_STREAM, stream, 0, head + packed))

    def write(self, stream: int, data: bytes, *, last: bool = False) -> None:
        self.put(Frame(DATA, stream, FIN if last else 0, data))

    async def until_ended(self, *streams: int) -> None:
        async with asyncio.timeout(10):
            while not set(streams) <= self.ended:
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def forwarding():
    """A client that is served, and the port of a server that answers in capitals."""

    async def answer(reader, writer):
        writer.write((await reader.read()).upper())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    client = Client()
    serving = asyncio.create_task(PortForward("127.0.0.1")(client))
    try:
        yield client, server.sockets[0].getsockname()[1]
    finally:
        client.pieces.put_nowait(None)
        await asyncio.wait_for(serving, 10)
        server.close()


async def test_each_pair_of_streams_is_a_connection():
    async with forwarding() as (client, port):
        for number, text in enumerate((b"one", b"x" * 100_000)):
            error, data = 4 * number + 1, 4 * number + 3
            client.open(error, "error", port, number)
            client.write(error, b"", last=True)
            client.open(data, "data", port, number)
            client.write(data, text)
            client.write(data, b"", last=True)
        await client.until_ended(1, 3, 5, 7)
        assert client.data[3] == b"ONE"
        assert client.data[7] == b"X" * 100_000
        assert client.data[1] == client.data[5] == b""
        assert client.replies == [(SYN_REPLY, stream) for stream in (1, 3, 5, 7)]


async def test_a_port_where_nobody_listens_is_named():
    async with forwarding() as (client, _):
        client.open(1, "error", 1)
        client.open(3, "data", 1)
        await client.until_ended(1, 3)
        assert client.data[1].startswith(b"cannot reach port 1 of the pod")


async def test_a_stream_that_is_reset_ends():
    async with forwarding() as (client, port):
        client.open(1, "error", port)
        client.open(3, "data", port)
        client.write(3, b"text")
        client.put(Frame(RST_STREAM, 3, 0, struct.pack(">II", 3, 5)))
        await client.until_ended(1, 3)
        assert client.data[3] == b"TEXT"


async def test_a_ping_is_answered_and_a_farewell_ends_it():
    client = Client()
    client.put(Frame(PING, 0, 0, b"\0\0\0\1"))
    client.put(Frame(GOAWAY, 0, 0, bytes(8)))
    await asyncio.wait_for(PortForward("127.0.0.1")(client), 10)
    assert client.replies == [(PING, 0)]


async def test_a_client_that_goes_cuts_its_connections():
    gone = asyncio.Event()

    async def wait(reader, writer):
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    client = Client()
    client.open(1, "error", server.sockets[0].getsockname()[1])
    client.open(3, "data", server.sockets[0].getsockname()[1])
    serving = asyncio.create_task(PortForward("127.0.0.1")(client))
    while len(client.replies) < 2:
        await client.changed.wait()
    client.write(3, b"x")
    await asyncio.sleep(0.05)
    client.pieces.put_nowait(None)
    await asyncio.wait_for(serving, 10)
    await asyncio.wait_for(gone.wait(), 10)
    server.close()


@pytest.mark.parametrize(
    "wrong",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("80020001 00000000"),
        bytes.fromhex("00000001 00ffffff") + bytes(100),
        Frame(SYN_STREAM, 1, 0, bytes(10) + b"not compressed").encode(),
        Frame(SYN_STREAM, 1, 0, b"").encode(),
    ],
)
async def test_what_is_not_spdy_ends_the_connection_and_nothing_else(wrong: bytes):
    client = Client()
    client.pieces.put_nowait(wrong)
    client.pieces.put_nowait(None)
    try:
        await asyncio.wait_for(PortForward("127.0.0.1")(client), 10)
    except SpdyError:
        return
    assert wrong.startswith((b"\0", b"G")), "an incomplete frame"
