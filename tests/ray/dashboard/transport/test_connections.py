"""What goes over the wire to a dashboard, and what comes back from one that misbehaves."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from controller.kube.client import Client
from controller.kube.credentials import StaticCredentials
from controller.kube.errors import NotSent, OutcomeUnknown
from controller.kube.http import HttpTransport
from controller.kube.resources import SERVICES
from controller.kube.transport import RawResponse
from controller.ray.dashboard import (
    DashboardError,
    Head,
    JobSubmission,
    NoResponse,
    ServeProxy,
    UnusableResponse,
)
from controller.ray.dashboard.client import MAX_RESPONSE, Connector, DashboardClient
from controller.ray.dashboard.responses import JobStatus
from controller.ray.dashboard.serve import ProxyHealth
from controller.ray.dashboard.transport import DirectTransports, ProxiedTransport
from tests.kube.fakes import FakeTransport, answer, client, status_body
from tests.ray.dashboard.recorded import recorded

HEAD = Head("cluster", "pod", 0, "default", "head-svc", token_secret="the-secret")
RUNNING = recorded("job-get-running").body


def http(body: bytes, *, status: str = "200 OK", kind: str = "application/json", extra="") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}; charset=utf-8\r\n{extra}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def listening(
    said: bytes, *, then_silent: bool = False
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """The port of a server that answers everything with these bytes, and what it was sent."""
    heard: list[bytes] = []
    serving: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        heard.append(await reader.read(65536))
        with suppress(ConnectionError):
            writer.write(said)
            await writer.drain()
            if then_silent:
                await reader.read()
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()
        await asyncio.gather(*filter(None, serving))
        await server.wait_closed()


@asynccontextmanager
async def dashboard(
    said: bytes, *, then_silent: bool = False, token: str = "", limit: float = 60
) -> AsyncIterator[tuple[DashboardClient, list[bytes]]]:
    """A client of a server that answers everything with these bytes, and what it was sent."""
    async with listening(said, then_silent=then_silent) as (port, heard):
        connections = DirectTransports()
        try:
            send = connections.to("127.0.0.1", port)
            yield DashboardClient(send, token=token, timeout=limit), heard
        finally:
            await connections.aclose()


@pytest.mark.real_time
async def test_a_request_carries_the_token_and_little_else():
    async with dashboard(http(recorded("job-submit").body), token="abc") as (to, heard):
        await to.submit(JobSubmission("python x.py", "demo-ok-x7k2p"))
    head, _, body = heard[0].decode().partition("\r\n\r\n")
    assert head.startswith("POST /api/jobs/ HTTP/1.1")
    assert "x-ray-authorization: Bearer abc" in head
    assert "accept-encoding: identity" in head.lower()
    assert json.loads(body) == {"entrypoint": "python x.py", "submission_id": "demo-ok-x7k2p"}


@pytest.mark.real_time
async def test_a_job_is_read_whatever_its_id_looks_like():
    said = http(recorded("job-get-running", submission_id="a b?c#d").body)
    async with dashboard(said) as (to, heard):
        assert (await to.job("a b?c#d")).status is JobStatus.RUNNING
    assert heard[0].startswith(b"GET /api/jobs/a%20b%3Fc%23d HTTP/1.1")


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (http(b"x" * (10 << 20)), UnusableResponse),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"100000\r\n" * 9, NoResponse),
        (http(b"", status="302 Found", extra="location: http://a:1/\r\n"), UnusableResponse),
        (http(RUNNING)[:-50], NoResponse),
        (http(RUNNING[:-50]), UnusableResponse),
        (http(RUNNING, extra="content-encoding: gzip\r\n", kind="text/html"), UnusableResponse),
        (http(b"<html/>", kind="text/html"), UnusableResponse),
        (http(RUNNING, status="500 Internal Server Error"), UnusableResponse),
        (b"SSH-2.0-OpenSSH_9.9\r\n", NoResponse),
        (b"", NoResponse),
    ],
    ids=["10MB", "broken-chunks", "redirect", "cut", "half", "odd", "html", "500", "ssh", "closed"],
)
async def test_a_misbehaving_server_says_nothing(said: bytes, error: type[DashboardError]):
    async with dashboard(said) as (to, heard):
        with pytest.raises(error) as raised:
            await to.job("demo-long")
    assert type(raised.value) is error
    assert len(heard) == 1, "sent once, and followed nowhere"


@pytest.mark.real_time
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_a_redirect_leads_to_no_other_host(status: str):
    async with listening(http(RUNNING)) as (elsewhere, overheard):
        there = f"location: http://127.0.0.1:{elsewhere}/\r\n"
        async with dashboard(http(b"", status=status, extra=there), token="abc") as (to, heard):
            with pytest.raises(UnusableResponse):
                await to.job("demo-long")
        assert b"Bearer abc" in heard[0]
    assert overheard == []


@pytest.mark.real_time
@pytest.mark.parametrize("way", ["direct", "proxied"])
async def test_no_answer_takes_more_memory_than_its_limit(way: str):
    bomb = http(gzip.compress(bytes(32 << 20), compresslevel=1), extra="content-encoding: gzip\r\n")
    async with listening(bomb) as (port, _):
        direct, kube = (
            DirectTransports(),
            HttpTransport(StaticCredentials(f"http://127.0.0.1:{port}")),
        )
        proxied = ProxiedTransport(client(kube), SERVICES, "default", "head-svc:8265")
        send = proxied if way == "proxied" else direct.to("127.0.0.1", port)
        tracemalloc.start()
        with pytest.raises(UnusableResponse):
            await DashboardClient(send).job("demo-long")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await kube.aclose()
        await direct.aclose()
    assert peak < 4 * MAX_RESPONSE


@pytest.mark.real_time
@pytest.mark.parametrize("said", [b"", http(RUNNING)[:-50]], ids=["nothing", "half"])
async def test_a_silent_server_is_not_waited_for(said: bytes):
    async with dashboard(said, then_silent=True, limit=0.2) as (to, _):
        with pytest.raises(NoResponse, match=r"no complete answer in 0\.2 s"):
            await to.job("demo-long")


@pytest.mark.real_time
async def test_where_nobody_listens_nothing_was_served():
    connections = DirectTransports()
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(NoResponse):
        await DashboardClient(connections.to("127.0.0.1", port)).version()
    with pytest.raises(NoResponse):
        await DashboardClient(connections.to("no-such-host.invalid", port)).version()
    await connections.aclose()


def proxied(
    *script: BaseException | Callable[[], RawResponse],
) -> tuple[DashboardClient, FakeTransport]:
    transport = FakeTransport(*script)
    send = ProxiedTransport(client(transport), SERVICES, "default", "head-svc:8265")
    return DashboardClient(send, token="abc"), transport


async def test_a_proxied_request_goes_through_the_api_server_with_the_token():
    to, transport = proxied(lambda: answer(200, RUNNING))
    assert (await to.job("demo-long")).status is JobStatus.RUNNING
    sent = transport.requests[0]
    assert sent.path == "/api/v1/namespaces/default/services/head-svc:8265/proxy/api/jobs/demo-long"
    assert sent.headers["x-ray-authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (lambda: answer(503, status_body(503, "ServiceUnavailable", "no endpoints")), NoResponse),
        (lambda: answer(404, status_body(404, "NotFound", "no service")), NoResponse),
        (lambda: answer(400, status_body(400, "BadRequest", "no such port")), NoResponse),
        (lambda: answer(200, b" " * (10 << 20)), UnusableResponse),
        (lambda: answer(302, b""), UnusableResponse),
        (lambda: answer(502, b"<html/>", content_type="text/html"), UnusableResponse),
        (NotSent("refused"), NoResponse),
        (OutcomeUnknown("reset"), NoResponse),
    ],
)
async def test_what_the_api_server_says_is_never_taken_for_ray(step, error):
    to, _ = proxied(step)
    with pytest.raises(error) as raised:
        await to.submit(JobSubmission("python x.py", "demo-long"))
    assert type(raised.value) is error


def secret(**data: str) -> bytes:
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    return json.dumps(
        {"kind": "Secret", "metadata": {"name": "the-secret", "uid": "u"}, "data": encoded}
    ).encode()


async def test_the_token_is_read_live_for_each_client_and_kept_nowhere_else():
    transport = FakeTransport(lambda: answer(200, secret(auth_token="the-token\n")))
    connect = Connector(client(transport), proxied=True)
    for _ in range(2):
        made = await connect(HEAD)
        assert made._headers["x-ray-authorization"] == "Bearer the-token"
    assert [each.path for each in transport.requests] == [
        "/api/v1/namespaces/default/secrets/the-secret"
    ] * 2
    assert "the-token" not in repr(vars(connect))
    await connect.aclose()


async def test_a_proxy_of_serve_is_asked_at_its_pod_and_without_the_token():
    script = [lambda: answer(200, b"success", content_type="text/plain")]
    transport = FakeTransport(*script)
    connect = Connector(client(transport), proxied=True)
    proxy = ServeProxy("c", "u", 0, "default", "head-svc", 8000, pod="head", address="10.0.0.7")
    assert await (await connect(proxy)).proxy_health() == ProxyHealth(healthy=True)
    (sent,) = transport.requests
    assert sent.path == "/api/v1/namespaces/default/pods/head:8000/proxy/-/healthz"
    assert "x-ray-authorization" not in sent.headers
    await connect.aclose()


@pytest.mark.parametrize(("address", "host"), [("10.0.0.7", "10.0.0.7"), ("fd00::7", "[fd00::7]")])
async def test_an_address_is_asked_directly(address: str, host: str):
    connect = Connector(client(FakeTransport()), proxied=False)
    proxy = ServeProxy("c", "u", 0, "default", "head-svc", 8000, pod="head", address=address)
    assert connect._host(proxy) == host
    await connect.aclose()


async def test_a_head_without_token_needs_no_secret():
    transport = FakeTransport(lambda: answer(500))
    connect = Connector(client(transport), proxied=False)
    made = await connect(Head("cluster", "pod", 0, "default", "head-svc"))
    assert not transport.requests
    assert "x-ray-authorization" not in made._headers
    await connect.aclose()


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (lambda: answer(404, status_body(404, "NotFound")), "is missing"),
        (lambda: answer(403, status_body(403, "Forbidden", "not allowed")), "not allowed"),
        (lambda: answer(200, secret(other="x")), "no token under the key auth_token"),
        (lambda: answer(200, secret(auth_token="")), "no token under the key auth_token"),
        (lambda: answer(200, b'{"kind": "Secret", "data": {"auth_token": "%%"}}'), "no token"),
    ],
)
async def test_without_its_token_a_head_cannot_be_reached(step, words: str):
    kube: Client = client(FakeTransport(step))
    with pytest.raises(NoResponse, match=words) as raised:
        await Connector(kube, proxied=True)(HEAD)
    assert "default/the-secret" in str(raised.value)
