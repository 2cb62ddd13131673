"""Who gets the debug page: a GET by a name of the loopback interface, and nothing else."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from controller.runtime.debug import LIMIT, DebugPage, EventLoop, PageContent
from controller.runtime.health import LOOPBACK, DebugServer
from controller.runtime.kind import ManagerMisuse
from tests.fakes.monitoring import serving

pytestmark = pytest.mark.real_time  # sockets


def server() -> DebugServer:
    page = DebugPage()
    page.add("event_loop", lambda: EventLoop(0.5, 1.5))
    return DebugServer(0, page)


async def test_the_page_is_json_that_nobody_keeps():
    async with serving(server()) as session, session.get("/debug") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        page = msgspec.json.decode(await answer.read(), type=PageContent)
    assert page == PageContent(event_loop=EventLoop(0.5, 1.5))


async def test_a_port_that_is_taken_is_an_error_that_names_the_option():
    first = server()
    async with serving(first):
        with pytest.raises(OSError, match=r"choose another address with --debug-port"):
            await DebugServer(first.port, DebugPage()).run(lambda: None)


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_it_only_answers_to_get(method: str):
    async with serving(server()) as session, session.request(method, "/debug") as answer:
        assert answer.status == 405


@pytest.mark.parametrize("path", ["/", "/metrics", "/debug/", "/debug/pprof"])
async def test_it_has_one_page(path: str):
    async with serving(server()) as session, session.get(path) as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:16060", 200),
        ("127.0.0.1:6060", 200),
        ("[::1]:6060", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        ("evil.example:6060", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost:6060:6060", 403),
        ("", 403),
    ],
)
async def test_a_name_that_may_lead_anybody_here_is_refused(host: str, status: int):
    async with (
        serving(server()) as session,
        session.get("/debug", headers={"Host": host}) as answer,
    ):
        assert answer.status == status
        assert status == 200 or b"event_loop" not in await answer.read()


@pytest.mark.parametrize(("hosts", "status"), [("", 403), ("Host: localhost\r\n" * 2, 400)])
async def test_a_request_without_a_name_or_with_two_is_refused(hosts: str, status: int):
    served = server()
    async with serving(served):
        answer = await raw(served.port, f"GET /debug HTTP/1.0\r\n{hosts}\r\n")
    assert answer.split()[1] == str(status).encode()


async def raw(port: int, request: str) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_it_is_reached_by_the_loopback_interface_alone():
    served = server()
    async with serving(served) as session:
        async with session.get("/debug") as answer:
            assert answer.status == 200
        # another address of the loopback network stands for any other address of the machine
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", served.port)


def test_a_section_that_fails_costs_only_itself():
    page = DebugPage()

    def fail() -> None:
        raise RuntimeError("a password may be in here")

    page.add("probes", fail)
    page.add("event_loop", lambda: EventLoop(0.5, 1.5))
    with capture_logs() as logs:
        read = page.read()
    assert read.event_loop == EventLoop(0.5, 1.5)
    assert (read.probes, read.unreadable) == (None, {"probes": "RuntimeError"})
    assert logs == [
        {
            "event": "debug.section_failed",
            "section": "probes",
            "exc_info": True,
            "log_level": "error",
        }
    ]


@pytest.mark.parametrize("name", ["nonsense", "event_loop"])
def test_a_section_without_a_place_is_a_mistake(name: str):
    page = DebugPage()
    page.add("event_loop", lambda: None)
    with pytest.raises(ManagerMisuse, match=name):
        page.add(name, lambda: None)


def test_a_list_is_short_enough_to_be_read():
    assert LIMIT == 100
