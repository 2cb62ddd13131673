"""SPDY/3.1: what is malformed or too much ends or waits, and touches no other connection."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib

import pytest

from devcluster.apiserver.sessions import (
    _LINE,
    _OPENING,
    ERROR,
    RESIZE,
    STDIN,
    STDOUT,
    SpdyChannels,
    wanted_channels,
)
from devcluster.apiserver.spdy import (
    _WAITING,
    DATA,
    DICTIONARY,
    FIN,
    GOAWAY,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    Frame,
    SpdyConnection,
    SpdyError,
)
from tests.devcluster.spdy_client import Client, reset

pytestmark = pytest.mark.embedded_only

WINDOW_UPDATE, SETTINGS, UNKNOWN = 9, 4, 77
PINGED = Frame(PING, 0, 0, (1).to_bytes(4, "big"))


def test_the_dictionary_is_that_of_the_standard():
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


async def served(client: Client) -> list:
    """The streams that are open when the client has said all."""
    client.pieces.put_nowait(None)
    streams = []
    await asyncio.wait_for(SpdyConnection(client, streams.append).serve(), 10)
    return streams


def syn(block: bytes, stream: int = 1) -> Frame:
    packing = zlib.compressobj(zdict=DICTIONARY)
    packed = packing.compress(block) + packing.flush(zlib.Z_SYNC_FLUSH)
    return Frame(SYN_STREAM, stream, 0, struct.pack(">IIBB", stream, 0, 0, 0) + packed)


NO_HEADERS = bytes(4)
LONG_HEADERS = struct.pack(">II", 1, 0xFFF4) + b"x" * 0xFFF4 + bytes(4)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(bytes.fromhex("80020001 00000000"), id="another version"),
        pytest.param(bytes.fromhex("80030001 00ffffff"), id="long control frame"),
        pytest.param(Frame(SYN_STREAM, 1, 0, b"").encode(), id="empty opening"),
        pytest.param(Frame(SYN_STREAM, 1, 0, bytes(9)).encode(), id="short opening"),
        pytest.param(Frame(RST_STREAM, 1, 0, bytes(4)).encode(), id="short reset"),
        pytest.param(Frame(PING, 0, 0, b"").encode(), id="empty ping"),
        pytest.param(Frame(GOAWAY, 0, 0, b"\0").encode(), id="short farewell"),
        pytest.param(
            Frame(SYN_STREAM, 1, 0, bytes(10) + b"not compressed").encode(), id="not compressed"
        ),
        pytest.param(syn(NO_HEADERS, stream=2).encode(), id="the server's stream"),
        pytest.param(syn(NO_HEADERS, stream=0).encode(), id="stream 0"),
        pytest.param(syn(b"\xff\xff\xff\xff").encode(), id="4 billion headers"),
        pytest.param(syn(b"\0\0\0\1\xff\xff\xff\xffx").encode(), id="a name of 4 GiB"),
        pytest.param(syn(b"\0\0\0\1\0\0\0\1\xff\0\0\0\0").encode(), id="not UTF-8"),
        pytest.param(syn(NO_HEADERS + b"x").encode(), id="more than headers"),
        pytest.param(syn(LONG_HEADERS + b"and more").encode(), id="cut after 64 KiB"),
        pytest.param(syn(bytes(10_000_000)).encode(), id="inflated to 10 MB"),
    ],
)
async def test_what_is_not_spdy_is_answered_with_a_farewell(wrong: bytes):
    client = Client()
    client.pieces.put_nowait(wrong)
    with pytest.raises(SpdyError):
        await served(client)
    assert client.replies[-1] == (GOAWAY, 0)


@pytest.mark.parametrize("second", [1, 3])
async def test_numbers_of_streams_grow(second: int):
    client = Client()
    client.open(3, "data")
    client.open(second, "data")
    with pytest.raises(SpdyError, match=f"stream {second} after stream 3"):
        await served(client)


async def test_frames_that_mean_nothing_here_are_passed_over():
    client = Client()
    for kind in (WINDOW_UPDATE, SETTINGS, UNKNOWN):
        client.put(Frame(kind, 0, 0, bytes(8)))
    client.write(5, b"for no stream", last=True)
    client.put(reset(7))
    client.open(9, "data")
    (stream,) = await served(client)
    assert stream.headers["streamtype"] == "data"
    assert client.replies == [(SYN_REPLY, 9)]


async def test_a_ping_is_answered_and_a_farewell_ends_it():
    client = Client()
    client.put(PINGED)
    client.put(Frame.farewell(0, 0))
    client.put(PINGED)
    await served(client)
    assert client.replies == [(PING, 0)]


async def test_what_nobody_reads_waits_within_bounds_until_it_is_read():
    client = Client()
    client.open(1, "data")
    for _ in range(8):
        client.put(Frame(DATA, 1, 0, bytes(_WAITING // 2)))
    client.write(1, b"", last=True)
    streams = []
    serving = asyncio.create_task(SpdyConnection(client, streams.append).serve())
    await asyncio.sleep(1)
    assert client.pieces.qsize() > 5 * (_WAITING // 2) // 1000
    total = 0
    while data := await streams[0].receive():
        assert len(data) <= 2 * _WAITING
        total += len(data)
    assert total == 4 * _WAITING
    client.pieces.put_nowait(None)
    await serving


async def test_data_after_the_end_is_dropped():
    client = Client()
    client.open(1, "data")
    client.write(1, b"text", last=True)
    client.write(1, b"more")
    (stream,) = await served(client)
    assert (await stream.receive(), await stream.receive()) == (b"text", b"")


async def test_a_stream_that_is_opened_as_ended_has_no_data():
    client = Client()
    opening = client.opening(1, streamType="error")
    client.put(Frame(SYN_STREAM, 1, FIN, opening.payload))
    (stream,) = await served(client)
    assert await stream.receive() == b""


def test_the_channels_of_a_command_are_those_the_kubelet_expects():
    assert wanted_channels({}) == {ERROR}
    assert wanted_channels({"stdin": "true", "stdout": "1", "tty": "false"}) == {
        ERROR,
        STDIN,
        STDOUT,
    }
    with_terminal = {"stdout": "true", "stderr": "true", "tty": "true"}
    assert wanted_channels(with_terminal) == {ERROR, STDOUT, RESIZE}


async def echo(channels) -> None:
    """Send back all input as text, one message for each."""
    while (message := await channels.receive()) is not None and message[1]:
        await channels.send(STDOUT, json.dumps([message[0], message[1].decode()]).encode())


def command(**query: str) -> tuple[Client, asyncio.Task[None]]:
    client = Client()
    channels = SpdyChannels(client, wanted_channels({"stdin": "1", "stdout": "1"} | query))
    return client, asyncio.create_task(channels.serve(echo))


async def test_sizes_of_a_terminal_are_lines():
    client, serving = command(tty="1")
    for number, kind in enumerate(("error", "stdin", "stdout", "resize")):
        client.open(2 * number + 1, kind)
    client.write(7, b'{"Width":1}\n{"Wid')
    client.write(7, b'th":2}\n\n')
    await asyncio.sleep(1)
    for _ in range(10):
        client.write(7, bytes(1000))
        await asyncio.sleep(1)
    client.write(7, b"\n")
    await asyncio.sleep(1)
    client.write(3, b"", last=True)
    await client.until_ended(1, 3, 5, 7)
    client.put(Frame.farewell(7, 0))
    await serving
    assert client.data[5].count(b'[4, "{') == 2
    assert client.data[5].count(rb"\u0000") == _LINE


@pytest.mark.parametrize("kinds", [("error", "error"), ("stderr",), ("", "stdin")])
async def test_an_unexpected_stream_ends_the_connection(kinds):
    client, serving = command()
    for number, kind in enumerate(kinds):
        client.open(2 * number + 1, kind)
    with pytest.raises(SpdyError, match="an unexpected stream"):
        await serving


async def test_a_client_that_opens_too_few_streams_is_not_waited_for():
    client, serving = command()
    client.open(1, "error")
    start = asyncio.get_running_loop().time()
    with pytest.raises(SpdyError, match="streams are missing"):
        await serving
    assert asyncio.get_running_loop().time() - start == pytest.approx(_OPENING)


async def test_a_client_that_stays_after_the_end_is_not_waited_for():
    client, serving = command()
    for number, kind in enumerate(("error", "stdin", "stdout")):
        client.open(2 * number + 1, kind)
    client.write(3, b"", last=True)
    await asyncio.wait_for(serving, 10)
    assert client.ended == {1, 3, 5}
