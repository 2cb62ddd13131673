"""The port of the embedded API server: TLS, tokens, and what is refused unread."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from controller.apimachinery.certificates import issued_once
from controller.kube.transport import Request
from devcluster.apiserver import ApiServer
from devcluster.apiserver.authentication import Guard, TokenIssuer
from devcluster.apiserver.authorization import Rbac
from devcluster.apiserver.http import serve
from tests.devcluster.apiserver.support import config_map

pytestmark = pytest.mark.real_time

PATH = "/api/v1/namespaces/default/configmaps"
HOSTS = ("127.0.0.1", "localhost", "kubernetes.default.svc")
TOKEN = {"Authorization": "Bearer secret"}


def now() -> datetime:
    return datetime.now(UTC)


@contextlib.asynccontextmanager
async def guarded():
    """A session that trusts the certificate and sends no token, and the server."""
    server = ApiServer(wall=now, clock=asyncio.get_running_loop(), rng=random.Random(1))
    issuer = server.hooks.tokens = TokenIssuer(server.store, now)
    server.audit.authorizer = Rbac(server.store)
    authority, certificate = issued_once("dev", HOSTS, now(), timedelta(days=1))
    http = await serve(server, guard=Guard("secret", issuer, HOSTS), tls=certificate.context())
    trust = ssl.create_default_context(cadata=authority.decode())
    try:
        async with aiohttp.ClientSession(
            f"https://127.0.0.1:{http.port}", connector=aiohttp.TCPConnector(ssl=trust)
        ) as session:
            session.port = http.port
            yield session, server
    finally:
        await server.aclose()
        await http.aclose()


async def status(session, headers=None, method: str = "GET", **more) -> int:
    async with session.request(method, PATH, headers=headers or {}, **more) as response:
        return response.status


async def test_only_the_right_token_opens():
    async with guarded() as (session, server):
        assert await status(session, TOKEN) == 200
        assert await status(session, {"Authorization": "bearer secret"}) == 200
        for wrong in ("", "Bearer", "Bearer ", "Bearer secre", "Basic secret", "Bearer s\u00e9"):
            assert await status(session, {"Authorization": wrong}) == 401
        assert await status(session) == 401
        assert await status(session, {"Impersonate-User": "kubernetes-admin"}) == 401
        assert sum(server.audit.requests.values()) == 2


async def test_plain_http_is_not_spoken():
    async with guarded() as (session, _), aiohttp.ClientSession() as plain:
        with pytest.raises(aiohttp.ClientError):
            await plain.get(f"http://127.0.0.1:{session.port}{PATH}", headers=TOKEN)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:443"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "kubernetes.default.svc"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://localhost:8443"}, 200),
    ],
)
async def test_foreign_hosts_and_origins_are_refused_with_the_right_token_too(headers, expected):
    async with guarded() as (session, _):
        assert await status(session, TOKEN | headers) == expected


async def test_a_refused_request_is_answered_before_its_body_is_sent():
    """The body never comes, and the connection is closed."""
    async with guarded() as (session, _):
        trust = session.connector._ssl
        for more in ("", "Expect: 100-continue\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", session.port, ssl=trust)
            head = (
                f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: 1000000000\r\n"
            )
            writer.write(f"{head}\r\n".encode())
            answer = await asyncio.wait_for(reader.read(), 60)
            assert answer.startswith(b"HTTP/1.1 401 ")
            assert b"100 Continue" not in answer
            writer.close()


async def test_a_body_is_asked_for_when_the_token_is_right():
    async with guarded() as (session, _):
        assert await status(session, TOKEN, "POST", json=config_map("a"), expect100=True) == 201


async def test_a_pods_token_does_what_its_role_allows_and_nothing_else():
    async with guarded() as (session, server):
        token = server.hooks.tokens.issue("default", "default", {})["status"]["token"]
        robot = {"Authorization": f"Bearer {token}"}
        assert await status(session, robot) == 403
        rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        rules = [{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}]
        meta = {"metadata": {"name": "r"}}
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
        for plural, body in (
            ("roles", {"rules": rules}),
            ("rolebindings", {"subjects": [subject], "roleRef": reference}),
        ):
            async with session.post(f"{rbac}/{plural}", json=meta | body, headers=TOKEN) as answer:
                assert answer.status == 201
        assert await status(session, robot) == 200
        assert await status(session, robot, "POST", json=config_map("a")) == 403
        for who in ("kubernetes-admin", "system:serviceaccount:default:default"):
            assert await status(session, robot | {"Impersonate-User": who}) == 403
        assert await status(session, robot | {"Impersonate-Group": "system:masters"}) == 403
        assert await status(session, TOKEN | {"Impersonate-User": "nobody"}) == 403


UPGRADES = {
    "websocket": {"Sec-WebSocket-Protocol": "v4.channel.k8s.io"},
    "SPDY/3.1": {"X-Stream-Protocol-Version": "v4.channel.k8s.io"},
}


@pytest.mark.parametrize("protocol", UPGRADES)
async def test_an_upgrade_is_refused_as_any_request(protocol):
    async with guarded() as (session, server):
        tokens = server.hooks.tokens
        await server.request(
            Request(
                "POST",
                "/api/v1/namespaces/default/serviceaccounts",
                body=b'{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"}}',
            )
        )
        pods = tokens.issue("default", "a", {})["status"]["token"]
        asked = {"Connection": "Upgrade", "Upgrade": protocol, **UPGRADES[protocol]}
        for expected, headers in (
            (401, {}),
            (401, {"Authorization": "Bearer wrong"}),
            (403, {"Authorization": f"Bearer {pods}"}),
            (403, TOKEN | {"Origin": "https://elsewhere.example"}),
            (421, TOKEN | {"Host": "elsewhere.example"}),
            (404, TOKEN),
        ):
            path = "/api/v1/namespaces/default/pods/a/exec?command=ls&stdout=1"
            async with session.post(path, headers=asked | headers) as answer:
                assert answer.status == expected, headers
