"""Published schemas: read once for each change, kept while nobody answers."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from controller.kube.errors import NotSent
from controller.kube.resources import PODS, SERVICES
from controller.runtime.caches.schemas import CHECKS, RETRY, InstalledSchemas

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


def document(*fields: str) -> bytes:
    kinds = [{"group": "", "version": "v1", "kind": "Pod"}]
    pod = {"properties": {name: {} for name in fields}, "x-kubernetes-group-version-kind": kinds}
    return json.dumps({"components": {"schemas": {"v1.Pod": pod}}}).encode()


@dataclass
class Publisher:
    """A client of a server that publishes one document."""

    body: bytes = document("spec")
    version: int = 1
    error: Exception | None = None
    index: Any = None
    read: list[str] = field(default_factory=list)

    async def request_json(self, method: str, path: str) -> Any:
        self.read.append(path)
        if self.error is not None:
            raise self.error
        url = f"/openapi/v3/api/v1?hash={self.version}"
        return self.index or json.dumps({"paths": {"api/v1": {"serverRelativeURL": url}}})

    async def read_page(self, path: str, query: Mapping[str, str]) -> bytes:
        assert query == {"hash": str(self.version)}
        self.read.append(path)
        return self.body

    def publish(self, *fields: str) -> None:
        self.body, self.version = document(*fields), self.version + 1


@asynccontextmanager
async def running(publisher: Publisher) -> AsyncIterator[tuple[InstalledSchemas, list[Any]]]:
    changed: list[Any] = []
    client: Any = publisher
    schemas = InstalledSchemas(client, [PODS], on_change=changed.append)
    ready = asyncio.Event()
    task = asyncio.create_task(schemas.run(ready.set))
    await ready.wait()
    try:
        yield schemas, changed
    finally:
        schemas.stop()
        await task


def fields(schemas: InstalledSchemas) -> list[str]:
    schema = schemas.found[PODS].schema
    return [] if schema is None else sorted(schema.properties)


async def test_a_schema_is_there_before_anybody_may_plan():
    async with running(Publisher()) as (schemas, changed):
        assert fields(schemas) == ["spec"]
        assert changed == [PODS]


async def test_an_unchanged_document_is_not_read_again():
    publisher = Publisher()
    async with running(publisher) as (schemas, changed):
        for _ in range(3):
            schemas.check_soon()
            await asyncio.sleep(sum(CHECKS) + 1)
        assert publisher.read.count("/openapi/v3/api/v1") == 1
        assert publisher.read.count("/openapi/v3") == 1 + 3 * len(CHECKS)
        assert changed == [PODS]
        await asyncio.sleep(3600)
        assert publisher.read.count("/openapi/v3") == 1 + 3 * len(CHECKS), (
            "at rest nothing is asked"
        )


async def test_a_document_that_is_published_a_moment_after_the_watch_ended_is_found():
    publisher = Publisher()
    async with running(publisher) as (schemas, changed):
        schemas.check_soon()
        await asyncio.sleep(CHECKS[0] + 1)
        publisher.publish("metadata", "spec")
        await asyncio.sleep(CHECKS[1])
        assert fields(schemas) == ["metadata", "spec"]
        assert changed == [PODS, PODS]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"error": NotSent("connection refused")}, "connection refused"),
        ({"index": "not JSON"}, "GET /openapi/v3"),
        ({"index": {"paths": []}}, "GET /openapi/v3"),
        ({"body": b"{"}, "Input data was truncated"),
        ({"body": b'{"a":' * 5000 + b"1" + b"}" * 5000}, "recursion"),
    ],
)
async def test_what_cannot_be_read_is_an_error_and_tried_again(broken: dict[str, Any], words: str):
    publisher = Publisher(**broken)
    async with running(publisher) as (schemas, changed):
        assert words in schemas.found[PODS].error
        assert changed == [PODS]
        publisher.error, publisher.index = None, None
        publisher.publish("spec")
        await asyncio.sleep(RETRY + 1)
        assert fields(schemas) == ["spec"]
        assert schemas.found[PODS].error == ""


async def test_a_schema_stays_in_use_while_the_server_does_not_answer():
    publisher = Publisher()
    async with running(publisher) as (schemas, changed):
        publisher.error = NotSent("connection refused")
        schemas.check_soon()
        await asyncio.sleep(60)
        assert fields(schemas) == ["spec"]
        assert changed == [PODS]


async def test_a_server_that_never_answers_delays_the_start_by_seconds_only():
    class Silent(Publisher):
        async def request_json(self, method: str, path: str) -> Any:
            await asyncio.Event().wait()

    silent: Any = Silent()
    schemas = InstalledSchemas(silent, [PODS, SERVICES], on_change=lambda _: None)
    ready = asyncio.Event()
    task = asyncio.create_task(schemas.run(ready.set))
    began = asyncio.get_running_loop().time()
    await ready.wait()
    assert asyncio.get_running_loop().time() - began <= 5
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
