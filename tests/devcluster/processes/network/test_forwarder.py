"""Passing connections on to one of several backends."""

from __future__ import annotations

import asyncio

import pytest

from devcluster.processes.network import Backend, Forwarder
from tests.ports import free_port

pytestmark = pytest.mark.real_time


async def answering(text: bytes):
    """A server that reads all, then answers; and the backend that it is."""

    async def answer(reader, writer):
        said = await reader.read()
        writer.write(text + said)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, Backend("127.0.0.1", server.sockets[0].getsockname()[1])


def nobody() -> Backend:
    return Backend("127.0.0.1", free_port())


async def forwarding(*backends: Backend):
    forwarder = Forwarder(backends)
    port = nobody().port
    await forwarder.listen("127.0.0.1", port)
    return forwarder, port


async def told(port: int, say: bytes = b"?") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(say)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def test_both_directions_are_passed_on_to_their_ends():
    server, backend = await answering(b"heard ")
    forwarder, port = await forwarding(backend)
    assert await told(port, b"x" * 1_000_000) == b"heard " + b"x" * 1_000_000
    await forwarder.aclose()
    server.close()


async def test_connections_go_to_the_backends_in_turn():
    first, second = await answering(b"1"), await answering(b"2")
    forwarder, port = await forwarding(first[1], second[1])
    assert sorted([await told(port) for _ in range(4)]) == [b"1?", b"1?", b"2?", b"2?"]
    await forwarder.aclose()
    for server, _ in (first, second):
        server.close()


async def test_a_backend_that_refuses_is_passed_over():
    server, backend = await answering(b"1")
    forwarder, port = await forwarding(nobody(), backend)
    assert [await told(port) for _ in range(3)] == [b"1?"] * 3
    await forwarder.aclose()
    server.close()


async def test_without_a_backend_that_answers_the_connection_is_reset():
    forwarder, port = await forwarding(nobody())
    with pytest.raises(ConnectionError):
        await told(port)
    await forwarder.aclose()


async def test_a_connection_that_is_not_admitted_is_reset():
    server, backend = await answering(b"secret")
    asked: list[tuple[object, object]] = []
    forwarder = Forwarder((backend,), lambda peer, here: bool(asked.append((peer, here))))
    port = nobody().port
    await forwarder.listen("127.0.0.1", port)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    assert asked == [(writer.get_extra_info("sockname"), ("127.0.0.1", port))]
    writer.close()
    await forwarder.aclose()
    server.close()


async def test_closing_cuts_connections_that_stand():
    server, backend = await answering(b"1")
    forwarder, port = await forwarding(backend)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"unfinished")
    await writer.drain()
    assert await told(port) == b"1?"  # so the first has been taken by now
    await forwarder.aclose()
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    server.close()


async def test_a_service_that_goes_keeps_the_connections_that_stand():
    server, backend = await answering(b"heard ")
    forwarder, port = await forwarding(backend)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"a")
    await writer.drain()
    assert await told(port) == b"heard ?"  # so the first has been taken by now
    forwarder.close()
    assert forwarder.is_used
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    writer.write_eof()
    assert await reader.read() == b"heard a"
    writer.close()
    await forwarder.aclose()
    assert not forwarder.is_used
    server.close()
