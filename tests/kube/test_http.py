"""The HTTP transport over real sockets: the outcome of each kind of failure."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import time
from asyncio import sslproto
from collections.abc import AsyncIterator, Callable
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme
from prometheus_client import CollectorRegistry

from controller.kube import errors, http
from controller.kube.client import Client
from controller.kube.credentials import (
    ClientCertificate,
    ServerEndpoint,
    StaticCredentials,
    client_context,
)
from controller.kube.http import (
    KEPT_IDLE,
    READ_BUFFER,
    HttpTransport,
    Timeouts,
    _socket,
    limit_read_buffers,
)
from controller.kube.resources import PODS
from controller.kube.source import ResourceSource
from controller.kube.transport import MAX_BODY, Request
from controller.runtime.election import FencedTransport
from controller.runtime.metrics import RestClientMetrics
from controller.runtime.watches import ASK
from informers import Disconnected, SourceError
from tests.fakes.clean_up import ends_in_a_cancelled_task
from tests.kube.fakes import HTML, POD, POD_LIST, status_body
from tests.kube.servers import HoldingServer, RawServer

pytestmark = pytest.mark.real_time

QUICK = Timeouts(connect=2, idle=0.3, total=5, watch_grace=0.2, watch_total=0.3)


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., HttpTransport]]:
    transports: list[HttpTransport] = []

    def make(url_or_credentials, timeouts: Timeouts | None = None) -> HttpTransport:
        credentials = url_or_credentials
        if isinstance(credentials, str):
            credentials = StaticCredentials(credentials)
        transports.append(HttpTransport(credentials, timeouts=timeouts))
        return transports[-1]

    yield make
    for transport in transports:
        await transport.aclose()


def client(transport: HttpTransport, **options) -> Client:
    return Client(transport, user_agent="test/1", clock=asyncio.get_running_loop(), **options)


def response(status: int, body: bytes, length: int | None = None, **headers: str) -> bytes:
    fields = {"content-type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    fields["content-length"] = str(len(body) if length is None else length)
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode() + body


async def test_closing_ends_even_in_a_task_that_has_been_cancelled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http, "_CLOSE_TIMEOUT", 0.05)
    transport = HttpTransport(StaticCredentials("http://127.0.0.1:1"))
    with socket.socket() as lasting:
        transport._sockets.add(lasting)
        assert await ends_in_a_cancelled_task(transport.aclose())


async def test_the_resolution_of_a_name_is_timed_and_an_address_needs_none():
    registry = CollectorRegistry()
    metrics = RestClientMetrics(registry)
    count = "rest_client_dns_resolution_duration_seconds_count"
    async with RawServer(answer_pod) as server:
        address, port, *_ = server._server.sockets[0].getsockname()
        for host in ("localhost", f"[{address}]" if ":" in address else address):
            credentials = StaticCredentials(f"http://{host}:{port}")
            transport = HttpTransport(credentials, metrics=metrics.for_host(host))
            await client(transport).get(PODS, "default", "web-1")
            await transport.aclose()
            resolved = registry.get_sample_value(count, {"host": host})
            assert resolved == (1 if host == "localhost" else None)


async def answer_pod(method, target, fields, writer) -> None:
    writer.write(response(200, POD))


async def watched(source: ResourceSource, query: dict[str, str]) -> bytes:
    async with source.watch({"watch": "1"} | query) as stream:
        return b"".join([chunk async for chunk in stream])


async def all_of(transport: HttpTransport, method: str, path: str, **options) -> tuple[int, bytes]:
    status, _, body = await transport.request(Request(method, path, **options))
    return status, b"".join([chunk async for chunk in body])


# --- answers


BODIES = {
    "status": lambda code: status_body(code, "Whatever"),
    "html": lambda _: HTML,
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("body", [*BODIES, "truncated"])
async def test_every_status_with_every_body_over_a_real_connection(opened, body: str):
    async def respond(method, target, fields, writer):
        code = int(parse_qs(urlsplit(target).query)["code"][0])
        if body == "truncated" and code not in {204, 304}:
            writer.write(response(code, POD_LIST[:20], len(POD_LIST)))
            writer.close()
        elif code in {204, 304}:
            writer.write(f"HTTP/1.1 {code} Whatever\r\n\r\n".encode())
        else:
            writer.write(response(code, BODIES[body](code)))

    async with RawServer(respond) as server:
        api = client(opened(server.url))
        source = ResourceSource(api, PODS)
        for code in range(200, 600):
            with pytest.raises(SourceError):
                await source.list({"code": str(code)})
        expected = 400 if body == "truncated" else 1
        assert server.connections <= expected, "connections are used again"


async def test_status_and_headers_pass_through_and_redirects_are_not_followed(opened):
    async def respond(method, target, fields, writer):
        writer.write(response(302, b"", location="/elsewhere", retry_after="5"))

    async with RawServer(respond) as server:
        status, headers, body = await opened(server.url).request(Request("GET", "/x"))
        await body.aclose()
        assert (status, headers["location"], headers["retry-after"]) == (302, "/elsewhere", "5")
        assert len(server.requests) == 1


# --- failures: what is certain


async def test_a_refused_connection_means_not_sent(opened):
    async with RawServer(answer_pod) as server:
        url = server.url
    with pytest.raises(errors.NotSent) as raised:
        await opened(url).request(Request("GET", "/x"))
    address = url.removeprefix("http://")
    assert str(raised.value) == f"GET /x: Cannot connect to {address}: Connection refused"


async def test_an_unknown_host_means_not_sent(opened, monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    with pytest.raises(errors.NotSent) as raised:
        await opened("https://nowhere.invalid").request(Request("GET", "/x"))
    words = "GET /x: Cannot connect to nowhere.invalid:443: Name or service not known"
    assert str(raised.value) == words


async def test_an_untrusted_server_means_not_sent(opened):
    tls = server_tls(trustme.CA(), "localhost")
    other = client_context(trustme.CA().cert_pem.bytes())
    async with RawServer(answer_pod, tls=tls) as server:
        with pytest.raises(errors.NotSent, match="certificate verify failed"):
            await opened(StaticCredentials(server.url, ssl_context=other)).request(
                Request("POST", "/x", body=b"{}")
            )
        assert server.requests == []


class LosesTheLease:
    """A fence of a process that leads so often as it is asked, and then no more."""

    def __init__(self, leads: int) -> None:
        self.leads = leads

    def is_leader(self) -> bool:
        self.leads -= 1
        return self.leads >= 0

    def time_left(self) -> float:
        return 10.0


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("reused", [False, True])
@pytest.mark.parametrize("leads", [1, 2])
async def test_a_lease_that_ends_before_the_first_byte_of_a_write_means_not_sent(
    opened, method: str, reused: bool, leads: int
):
    async with RawServer(answer_pod) as server:
        transport = opened(server.url)
        if reused:
            await all_of(transport, "GET", "/first")
        fenced = FencedTransport(transport, LosesTheLease(leads))
        with pytest.raises(errors.NotSent, match="this process does not lead"):
            await fenced.request(Request(method, "/second", body=b"{}"))
        await all_of(transport, "GET", "/third")
        targets = [target for _, target, _ in server.requests]
        assert targets == [*(["/first"] if reused else []), "/third"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_connection_that_breaks_after_sending_is_unknown_and_sent_once(opened, method):
    """On a reused connection aiohttp would repeat GET, PUT and DELETE by itself."""

    async def respond(method, target, fields, writer):
        if target == "/first":
            writer.write(response(200, b"{}"))
        else:
            writer.close()

    async with RawServer(respond) as server:
        transport = opened(server.url)
        await all_of(transport, "GET", "/first")
        with pytest.raises(errors.OutcomeUnknown):
            await transport.request(Request(method, "/second", body=b"{}"))
        assert [target for _, target, _ in server.requests] == ["/first", "/second"]
        assert server.connections == 1


async def test_an_unused_connection_outlasts_the_time_to_the_next_look_for_optional_resources(
    opened, monkeypatch
):
    assert KEPT_IDLE > ASK
    passed = 0.0
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: time.monotonic() + passed)
    async with RawServer(answer_pod) as server:
        transport = opened(server.url)
        await all_of(transport, "GET", "/first")
        passed += KEPT_IDLE - 1
        await all_of(transport, "GET", "/second")
        assert server.connections == 1
        passed += KEPT_IDLE + 1
        await all_of(transport, "GET", "/third")
        assert server.connections == 2


async def test_only_as_many_connections_of_a_burst_are_kept_as_are_used_after_it(
    opened, monkeypatch
):
    passed = 0.0
    monkeypatch.setattr("aiohttp.connector.monotonic", lambda: time.monotonic() + passed)
    together = asyncio.Barrier(3)

    async def respond(method, target, fields, writer):
        if target == "/burst":
            await together.wait()
        await answer_pod(method, target, fields, writer)

    async with RawServer(respond) as server:
        transport = opened(server.url)

        async def burst() -> None:
            await asyncio.gather(*(all_of(transport, "GET", "/burst") for _ in range(3)))

        await burst()
        assert server.connections == 3
        for _ in range(2):
            passed += 0.4 * KEPT_IDLE
            await all_of(transport, "GET", "/one")
        passed += 0.4 * KEPT_IDLE
        await burst()
        assert server.connections == 3 + 2


async def test_a_body_that_is_cut_short_is_unknown(opened):
    async def respond(method, target, fields, writer):
        writer.write(response(201, POD[:10], len(POD)))
        writer.close()

    async with RawServer(respond) as server:
        with pytest.raises(errors.OutcomeUnknown):
            await client(opened(server.url)).create(PODS, "default", {})
        assert len(server.requests) == 1


async def test_few_compressed_bytes_that_become_many_are_refused(opened):
    bomb = gzip.compress(b" " * (2 * MAX_BODY), compresslevel=1)
    assert len(bomb) < MAX_BODY / 50

    async def respond(method, target, fields, writer):
        writer.write(response(200, bomb, content_encoding="gzip"))

    async with RawServer(respond) as server:
        with pytest.raises(errors.UnexpectedResponse, match="the answer has more than"):
            await client(opened(server.url)).get(PODS, "default", "a")
        [(_, _, fields)] = server.requests
        assert fields["accept-encoding"] == "identity"


async def test_what_a_proxy_compresses_unasked_is_read(opened):
    async def respond(method, target, fields, writer):
        writer.write(response(200, gzip.compress(POD), content_encoding="gzip"))

    async with RawServer(respond) as server:
        assert (await client(opened(server.url)).get(PODS, "default", "a")).metadata.name == "a"


async def test_a_half_open_connection_ends_a_get_by_the_time_limit_of_the_client(opened):
    async with HoldingServer(silent_connections=9) as server:
        api = client(opened(server.url), timeout=0.2)
        with pytest.raises(errors.OutcomeUnknown, match=r"no complete answer within 0\.2 s"):
            await api.get(PODS, "default", "a")


@pytest.mark.parametrize("query", [{}, {"timeoutSeconds": "0"}])
@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"]
)
async def test_a_half_open_connection_ends_a_watch_by_its_own_limit(opened, query, said: bytes):
    async def respond(method, target, fields, writer):
        writer.write(said)
        await writer.drain()
        await asyncio.Event().wait()

    async with RawServer(respond) as server:
        source = ResourceSource(client(opened(server.url, QUICK)), PODS)
        with pytest.raises(Disconnected):
            await watched(source, query)


async def test_a_quiet_watch_lives_longer_than_the_silence_limit(opened):
    async def respond(method, target, fields, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(1.5)
        writer.write(b"{}\n")
        writer.close()

    async with RawServer(respond) as server:
        source = ResourceSource(client(opened(server.url, Timeouts(idle=1))), PODS)
        assert await watched(source, {"timeoutSeconds": "300"}) == b"{}\n"


async def test_a_cancelled_request_closes_its_connection(opened):
    asked = asyncio.Event()

    async def respond(method, target, fields, writer):
        asked.set()

    async with RawServer(respond) as server:
        task = asyncio.create_task(opened(server.url).request(Request("PUT", "/x", body=b"{}")))
        await asked.wait()
        assert not server.ended.is_set()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            await server.ended.wait()


async def test_an_answer_that_nobody_reads_gives_its_connection_back(opened):
    async def respond(method, target, fields, writer):
        writer.write(response(200, b"x" * 10, 1 << 20))

    async with RawServer(respond) as server:
        transport = opened(server.url)
        _, _, body = await transport.request(Request("GET", "/x"))
        await body.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(body)
        connector = transport._requests.connector
        assert connector is not None
        assert not connector._acquired


def test_sockets_notice_a_dead_peer():
    made = _socket((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("", 0)))
    with made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


# --- credentials


class ChangingCredentials(StaticCredentials):
    def __init__(self, url: str, *tokens: str) -> None:
        super().__init__(url)
        self.tokens = list(tokens)
        self.refreshed = 0
        self.context: ssl.SSLContext | None = None

    async def authorization(self) -> str:
        return f"Bearer {self.tokens[0]}"

    async def refresh(self) -> None:
        self.refreshed += 1
        await asyncio.sleep(0.05)
        if len(self.tokens) > 1:
            self.tokens.pop(0)

    def ssl_context(self) -> ssl.SSLContext | None:
        return self.context


async def only_new_tokens(method, target, fields, writer) -> None:
    if fields.get("authorization") == "bearer new":
        writer.write(response(200, POD))
    else:
        writer.write(response(401, status_body(401, "Unauthorized", "token expired")))


async def test_a_401_refreshes_once_and_the_request_is_repeated(opened):
    async with RawServer(only_new_tokens) as server:
        credentials = ChangingCredentials(server.url, "old", "new")
        await client(opened(credentials)).get(PODS, "default", "a")
        assert credentials.refreshed == 1
        assert [fields["authorization"] for _, _, fields in server.requests] == [
            "bearer old",
            "bearer new",
        ]


async def test_a_watch_refreshes_too(opened):
    async with RawServer(only_new_tokens) as server:
        source = ResourceSource(client(opened(ChangingCredentials(server.url, "old", "new"))), PODS)
        assert await watched(source, {}) == POD


async def test_new_certificates_are_used_for_new_connections_while_old_ones_live(opened):
    old, new = trustme.CA(), trustme.CA()
    async with (
        RawServer(answer_pod, tls=server_tls(old, "localhost")) as first,
        RawServer(answer_pod, tls=server_tls(new, "localhost")) as second,
    ):
        credentials = ChangingCredentials(first.url, "t")
        credentials.context = client_context(old.cert_pem.bytes())
        transport = opened(credentials)
        assert (await all_of(transport, "GET", "/"))[0] == 200
        credentials.endpoint = ServerEndpoint(second.url)  # as if the server had been replaced
        with pytest.raises(errors.NotSent):
            await all_of(transport, "GET", "/")
        credentials.context = client_context(new.cert_pem.bytes())
        assert (await all_of(transport, "GET", "/"))[0] == 200


def server_tls(ca: trustme.CA, name: str, *, clients: trustme.CA | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert(name).configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_a_client_certificate_and_another_server_name(opened):
    ca = trustme.CA()
    identity = ca.issue_cert("me@example")
    certificate = ClientCertificate(
        b"".join(part.bytes() for part in identity.cert_chain_pems),
        identity.private_key_pem.bytes(),
    )
    tls = server_tls(ca, "kubernetes.internal", clients=ca)
    async with RawServer(answer_pod, tls=tls) as server:
        context = client_context(ca.cert_pem.bytes(), certificate=certificate)
        credentials = StaticCredentials(server.url, ssl_context=context)
        with pytest.raises(errors.NotSent, match="localhost"):
            await all_of(opened(credentials), "GET", "/")
        credentials.endpoint = ServerEndpoint(server.url, server_name="kubernetes.internal")
        assert (await all_of(opened(credentials), "GET", "/"))[1] == POD


async def test_a_server_is_not_verified_only_if_that_was_asked_for(opened):
    async with RawServer(answer_pod, tls=server_tls(trustme.CA(), "elsewhere")) as server:
        trusting = StaticCredentials(server.url, ssl_context=client_context(verify=False))
        assert (await all_of(opened(trusting), "GET", "/"))[1] == POD


async def test_with_small_read_buffers_large_bodies_arrive_whole(opened, monkeypatch):
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", 256 * 1024)  # restores it afterwards
    limit_read_buffers()
    made: list[sslproto.SSLProtocol] = []
    initialize = sslproto.SSLProtocol.__init__

    def remember(protocol, *arguments, **more) -> None:
        made.append(protocol)
        initialize(protocol, *arguments, **more)

    async def answer(method, target, fields, writer) -> None:
        writer.write(response(200, b"x" * 1_000_000))

    monkeypatch.setattr(sslproto.SSLProtocol, "__init__", remember)
    async with RawServer(answer, tls=server_tls(trustme.CA(), "elsewhere")) as server:
        trusting = StaticCredentials(server.url, ssl_context=client_context(verify=False))
        assert (await all_of(opened(trusting), "GET", "/"))[1] == b"x" * 1_000_000
    assert {len(each._ssl_buffer) for each in made} == {READ_BUFFER}


# --- proxies


async def test_proxy_variables_of_the_environment_are_ignored(opened, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://localhost:9")
    async with RawServer(answer_pod) as server:
        assert (await all_of(opened(server.url), "GET", "/"))[1] == POD
