"""`kubectl port-forward`: SPDY streams that become connections."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from devcluster.apiserver.sessions import PortForward
from devcluster.apiserver.spdy import SYN_REPLY
from tests.devcluster.spdy_client import Client, reset

pytestmark = pytest.mark.real_time


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
        await asyncio.wait_for(serving, 60)
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
        client.open_pair(1, 3, port)
        client.write(3, b"text")
        client.put(reset(3))
        await client.until_ended(1)
        assert 3 not in client.data
        assert 3 not in client.ended


async def test_what_a_pod_does_not_want_does_not_delay_it():
    async def refuse(reader, writer):
        writer.close()

    deaf = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with forwarding() as (client, port):
        client.open_pair(1, 3, deaf.sockets[0].getsockname()[1])
        await client.until_ended(1, 3)
        for _ in range(40):
            client.write(3, bytes(100_000))
        client.open_pair(5, 7, port, 1)
        client.write(7, b"text", last=True)
        await client.until_ended(5, 7)
        assert client.data[7] == b"TEXT"
    deaf.close()


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
    await asyncio.wait_for(serving, 60)
    await asyncio.wait_for(gone.wait(), 60)
    server.close()
