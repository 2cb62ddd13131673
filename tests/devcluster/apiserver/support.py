"""An API under test: the embedded server, or the real one that `MANTA_TEST_KUBECONFIG` names.

Tests that take the `api` fixture state facts about real API servers, and hold on both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import ssl
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from msgspec import Struct

from controller.kube.transport import Request
from devcluster.apiserver import ApiServer
from tests.lab.session import own_kubeconfig

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Answer(Struct, frozen=True):
    status: int
    body: Any
    headers: Mapping[str, str]
    text: bytes

    @property
    def message(self) -> str:
        return self.body.get("message", "")

    @property
    def revision(self) -> str:
        return self.body["metadata"]["resourceVersion"]

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause, each once."""
        causes = self.body.get("details", {}).get("causes", [])
        return list(dict.fromkeys((cause["reason"], cause["field"]) for cause in causes))

    @property
    def warnings(self) -> list[str]:
        found = re.findall(r'299 - "((?:[^"\\]|\\.)*)"', self.headers.get("warning", ""))
        return [text.replace('\\"', '"') for text in found]


class Api:
    """What tests do with an API server, whichever it is."""

    is_real = False
    namespace = ""

    async def send(self, method, path, query, headers, body):
        raise NotImplementedError

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        user_agent: str = "test/1.0",
        **query: str,
    ) -> Answer:
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": accept, "User-Agent": user_agent}
        status, found, chunks = await self.send(method, path, query, headers, raw)
        text = b"".join([chunk async for chunk in chunks])
        try:
            return Answer(status, json.loads(text), found, text)
        except ValueError:
            return Answer(status, None, found, text)

    async def get(self, path: str, **rest: str) -> Answer:
        return await self.call("GET", path, **rest)

    async def create(self, path: str, body: Json, **rest: str) -> Answer:
        return await self.call("POST", path, body, **rest)

    async def replace(self, path: str, body: Json, **rest: str) -> Answer:
        return await self.call("PUT", path, body, **rest)

    async def patch(self, path: str, body: Any, content_type: str = MERGE, **rest: str) -> Answer:
        return await self.call("PATCH", path, body, content_type=content_type, **rest)

    async def delete(self, path: str, body: Json | None = None, **rest: str) -> Answer:
        return await self.call("DELETE", path, body, **rest)

    def path(self, plural: str, name: str = "", group: str = "") -> str:
        root = f"/apis/{group}" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    async def watch(self, path: str, count: int, **query: str) -> list[Json]:
        events: list[Json] = []
        async for event in self.stream(path, **query):
            events.append(event)
            if len(events) == count:
                break
        return events

    async def stream(self, path: str, accept: str = "application/json", **query: str):
        query = {"watch": "1", "timeoutSeconds": "5"} | query
        _, _, chunks = await self.send("GET", path, query, {"Accept": accept}, None)
        buffer = b""
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def define(self, definition: Json) -> None:
        """Create a CustomResourceDefinition and wait until it is served."""
        answer = await self.create(CRDS, definition)
        assert answer.status == 201, answer.body
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        async with asyncio.timeout(60):
            while (await self.get(path)).status != 200:  # noqa: ASYNC110 - nothing to wait on
                await asyncio.sleep(0.1)


class EmbeddedApi(Api):
    def __init__(self, *, tracks_all_writers: bool = False) -> None:
        self.loop = asyncio.get_running_loop()
        started = self.loop.time()
        self.server = ApiServer(
            wall=lambda: EPOCH + timedelta(seconds=self.loop.time() - started),
            clock=self.loop,
            rng=random.Random(1),
            tracks_all_writers=tracks_all_writers,
        )

    async def send(self, method, path, query, headers, body):
        return await self.server.request(Request(method, path, query, headers, body))


class RealApi(Api):
    is_real = True

    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(Path(kubeconfig).read_text())
        self._base = config["clusters"][0]["cluster"]["server"]
        self._token = config["users"][0]["user"]["token"]
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    async def send(self, method, path, query, headers, body):
        headers = {**headers, "Authorization": f"Bearer {self._token}"}
        response = await self._session.request(
            method, self._base + path, params=query, data=body, headers=headers
        )
        found = {name.lower(): value for name, value in response.headers.items()}
        found["warning"] = ", ".join(response.headers.getall("Warning", []))
        return response.status, found, self._chunks(response)

    async def _chunks(self, response):
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        finally:
            response.close()

    async def aclose(self) -> None:
        await self._session.close()


@contextlib.asynccontextmanager
async def open_api() -> AsyncIterator[Api]:
    """The server under test, with a namespace of its own for this test."""
    kubeconfig = own_kubeconfig()
    async with contextlib.AsyncExitStack() as stack:
        if kubeconfig:
            api: Api = RealApi(kubeconfig)
            stack.push_async_callback(api.aclose)
        else:
            api = EmbeddedApi()
            stack.push_async_callback(api.server.aclose)
        api.namespace = f"t-{uuid.uuid4().hex[:8]}"
        await api.create("/api/v1/namespaces", {"metadata": {"name": api.namespace}})
        yield api
        await api.delete(f"/api/v1/namespaces/{api.namespace}")


def pod(name: str, **metadata: Any) -> Json:
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
    }


def config_map(name: str, **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def types_and_names(events: list[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]
