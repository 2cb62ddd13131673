"""Documents of a web server that misbehaves, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from controller.kaito.lookups.background import LookupFailed
from controller.kaito.lookups.huggingface import Document, WebReader
from tests.kube.servers import RawServer
from tests.kube.test_http import answer_pod, server_tls

pytestmark = pytest.mark.real_time
LIMIT = 100_000


BOMB = gzip.compress(b"x" * 10_000_000)
PAGES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/hub/ok": (200, {}, b"yes"),
    "/hub/moved": (307, {"location": "/hub/ok?x=a%2Fb"}, b""),
    "/hub/odd": (302, {"location": "file:///etc/passwd"}, b""),
    "/hub/loop": (302, {"location": "/hub/loop"}, b""),
    "/hub/bomb": (200, {"content-encoding": "gzip"}, BOMB),
    "/hub/busy": (429, {"retry-after": "30"}, b"slow down"),
    "/hub/later": (503, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, b""),
    "/hub/page": (200, {"link": '<http://x/?cursor=1>; rel="next"'}, b""),
}


class Site:
    """A server whose pages do all that pages may do.

    Attributes:
        seen: path and authorization of each request.
        address: of the pages.
        elsewhere: of a page of another server.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.address = ""
        self.elsewhere = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.path_qs, request.headers.get("authorization", "")))
        if request.path in {"/hub/huge", "/hub/cut"}:
            return await self._stream(request)
        pages = {**PAGES, "/hub/elsewhere": (302, {"location": self.elsewhere}, b"")}
        status, headers, body = pages.get(request.path, (404, {}, b"x" * 1_000_000))
        return web.Response(status=status, headers=headers, body=body)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """More than anybody reads, or less than was promised."""
        answer = web.StreamResponse(headers={"content-length": str(1000 * 65536)})
        await answer.prepare(request)
        for _ in range(1000 if request.path == "/hub/huge" else 1):
            await answer.write(b"x" * 65536)
        assert request.transport is not None
        request.transport.close()
        return answer


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    found = Site()
    runners: list[web.AppRunner] = []
    for number in range(2):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", found.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
        address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        if number:
            found.elsewhere = f"{address}/hub/ok"
        else:
            found.address = f"{address}/hub"
    yield found
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def reader(site: Site) -> AsyncIterator[WebReader]:
    found = WebReader(f"{site.address}/")
    yield found
    await found.aclose()


async def get(reader: WebReader, path: str, token: str = "hf_x") -> Document:
    async with asyncio.timeout(60):
        return await reader.get(path, token=token, limit=LIMIT)


async def test_a_redirect_on_the_same_server_is_followed(site: Site, reader: WebReader):
    assert (await get(reader, "/moved")).body == b"yes"
    assert site.seen[-1] == ("/hub/ok?x=a/b", "Bearer hf_x")


@pytest.mark.parametrize("path", ["/elsewhere", "/odd"])
async def test_a_redirect_to_another_server_is_not(site: Site, reader: WebReader, path: str):
    with pytest.raises(LookupFailed) as raised:
        await get(reader, path)
    assert raised.value.reason == "ModelMetadataUnavailable"
    assert [seen for seen, _ in site.seen] == [f"/hub{path}"]


async def test_redirects_without_end_are_given_up(site: Site, reader: WebReader):
    with pytest.raises(LookupFailed, match="again and again"):
        await get(reader, "/loop")
    assert len(site.seen) == 4


async def test_no_more_is_read_than_allowed(reader: WebReader):
    with pytest.raises(LookupFailed, match="sends more than 100000 bytes"):
        await get(reader, "/huge")


async def test_what_is_refused_is_not_read(reader: WebReader):
    assert await get(reader, "/none") == Document(404)
    assert await get(reader, "/busy") == Document(429, retry_after=30)
    assert await get(reader, "/later") == Document(503)
    assert (await get(reader, "/page")).is_part


async def test_a_server_without_a_trusted_certificate_gets_no_token():
    tls = server_tls(trustme.CA(), "localhost")
    async with RawServer(answer_pod, tls=tls) as server:
        reader = WebReader(server.url)
        with pytest.raises(LookupFailed, match=r"cannot be reached.*certificate verify failed"):
            await get(reader, "/ok")
        assert server.requests == []
    await reader.aclose()


async def test_the_systems_certificates_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with RawServer(answer_pod, tls=server_tls(ca, "localhost")) as server:
        reader = WebReader(server.url)
        assert (await get(reader, "/ok")).status == 200
    await reader.aclose()


async def test_variables_of_the_environment_name_no_proxy(
    reader: WebReader, monkeypatch: pytest.MonkeyPatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await get(reader, "/ok")).body == b"yes"
