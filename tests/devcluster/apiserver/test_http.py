"""The embedded server on a port, for kubectl and other processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from datetime import UTC, datetime

import aiohttp
import pytest

from devcluster.apiserver import ApiServer
from devcluster.apiserver.http import serve
from tests.devcluster.apiserver.support import config_map
from tests.lab.programs import kubectl

KUBECTL = kubectl()


pytestmark = pytest.mark.real_time


@contextlib.asynccontextmanager
async def serving():
    server = ApiServer(
        wall=lambda: datetime.now(UTC), clock=asyncio.get_running_loop(), rng=random.Random(1)
    )
    http = await serve(server, "127.0.0.1", 0)
    try:
        yield server, f"http://127.0.0.1:{http.port}"
    finally:
        await server.aclose()
        await http.aclose()


async def test_requests_and_a_stream():
    async with serving() as (_, url), aiohttp.ClientSession(url) as session:
        path = "/api/v1/namespaces/default/configmaps"
        watch = {"watch": "1", "timeoutSeconds": "20"}
        async with session.get(path, params=watch) as stream:
            assert stream.status == 200
            async with session.post(path, json=config_map("a", x="ü")) as response:
                assert response.status == 201
                created = await response.json()
            line = await stream.content.readline()
            assert created["metadata"]["uid"].encode() in line
        async with session.get(f"{path}/none") as response:
            assert (response.status, (await response.json())["code"]) == (404, 404)


async def test_a_name_with_escaped_characters():
    async with serving() as (_, url), aiohttp.ClientSession(url) as session:
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        async with session.post(path, json={"metadata": {"name": "a:b"}}) as response:
            assert response.status == 201
        async with session.get(f"{path}/a%3Ab") as response:
            assert response.status == 200


async def test_a_broken_request_does_not_end_the_server(caplog):
    async with serving() as (server, url), aiohttp.ClientSession(url) as session:
        broken = server.request

        async def request(received, *, sender):
            if received.path == "/break":
                raise RuntimeError("broken")
            return await broken(received, sender=sender)

        server.request = request
        async with session.get("/break") as response:
            assert (response.status, (await response.json())["reason"]) == (500, "InternalError")
        async with session.get("/healthz") as response:
            assert response.status == 200
        assert "GET /break failed" in caplog.text


async def test_closing_the_server_ends_streams():
    async with (
        serving() as (server, url),
        aiohttp.ClientSession(url) as session,
        session.get("/api/v1/pods", params={"watch": "1"}) as stream,
    ):
        await server.aclose()
        assert await asyncio.wait_for(stream.content.read(), 60) == b""


async def run_kubectl(url: str, folder, *arguments: str, stdin: str = "") -> str:
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL),
        f"--server={url}",
        f"--cache-dir={folder}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": "/dev/null"},
    )
    output, _ = await process.communicate(stdin.encode())
    return output.decode()


POD = """
apiVersion: v1
kind: Pod
metadata: {{name: a, labels: {{version: "{version}"}}}}
spec: {{containers: [{{name: main, image: "busybox:{version}"}}]}}
"""


@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="SKIP: no kubectl on this machine")
async def test_kubectl_applies_prints_and_deletes(tmp_path):
    async with serving() as (_, url):

        async def run(*arguments: str, stdin: str = "") -> str:
            return await run_kubectl(url, tmp_path, *arguments, stdin=stdin)

        first = POD.format(version=1)
        assert await run("apply", "-f-", stdin=first) == "pod/a created\n"
        assert await run("apply", "-f-", stdin=first) == "pod/a unchanged\n"
        assert await run("apply", "-f-", stdin=POD.format(version=2)) == "pod/a configured\n"
        (heading, row) = (await run("get", "pods", "--show-labels")).splitlines()
        assert heading.split()[:4] == ["NAME", "READY", "STATUS", "RESTARTS"]
        assert row.split()[:3] == ["a", "0/1", "Pending"]
        assert "version=2" in row
        mistyped = first.replace("image", "imagee")
        assert 'unknown field "spec.containers[0].imagee"' in await run(
            "create", "--validate=strict", "-f-", stdin=mistyped
        )
        assert await run("create", "configmap", "c", "--from-literal=x=y") == (
            "configmap/c created\n"
        )
        assert await run("get", "configmap", "c", "-o", "jsonpath={.data.x}") == "y"
        assert "deleted" in await run("delete", "pod", "a", "--timeout=10s")
        assert "NotFound" in await run("get", "pod", "a")


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\nAuthorization: " + b"a" * 60_000, b"\x16\x03\x01", b"GET\r\n"]
)
async def test_what_is_no_request_is_not_logged(caplog, head):
    async with serving() as (_, url):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(head + b"\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
    assert not caplog.records
