"""Published schemas: read once for each change, kept while nobody answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.kube.errors import Forbidden, NotSent, Status
from controller.kube.resources import CRDS, PODS, SERVICES
from controller.runtime.schemas import (
    CHECKS,
    PUBLICATION,
    RETRY,
    SPACING,
    InstalledSchemas,
)


def document(*fields: str, kinds: tuple[str, ...] = ("Pod",)) -> bytes:
    schemas = {
        f"v1.{kind}": {
            "properties": {name: {} for name in fields},
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": kind}],
        }
        for kind in kinds
    }
    return json.dumps({"components": {"schemas": schemas}}).encode()


async def unread(_resource: Any) -> None:
    """Nothing is cached."""


@dataclass
class Publisher:
    """A client of a server that publishes one document."""

    body: bytes = document("spec")
    version: int = 1
    error: Exception | None = None
    index: Any = None
    read: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    reading: asyncio.Event = field(default_factory=asyncio.Event)
    verified: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reading.set()

    async def request_json(self, method: str, path: str) -> Any:
        self.read.append(path)
        self.times.append(asyncio.get_running_loop().time())
        if self.error is not None:
            raise self.error
        url = f"/openapi/v3/api/v1?hash={self.version}"
        return self.index or json.dumps({"paths": {"api/v1": {"serverRelativeURL": url}}})

    async def read_page(self, path: str, query: Mapping[str, str]) -> bytes:
        assert query == {"hash": str(self.version)}
        self.read.append(path)
        return self.body

    async def reread(self, resource: Any) -> None:
        self.read.append(f"all {resource}")
        await self.reading.wait()

    def publish(self, *fields: str, **more: Any) -> None:
        self.body, self.version = document(*fields, **more), self.version + 1

    def note_verified(self, resource: Any, keys: list[str]) -> None:
        assert (resource, bool(keys)) == (PODS, True)
        self.verified.extend(keys)


@asynccontextmanager
async def running(publisher: Publisher) -> AsyncIterator[tuple[InstalledSchemas, list[Any]]]:
    changed: list[Any] = []
    client: Any = publisher
    schemas = InstalledSchemas(
        client,
        [PODS],
        on_change=changed.append,
        on_verified=publisher.note_verified,
        reread=publisher.reread,
    )
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


async def test_an_unchanged_document_is_not_read_again():
    publisher = Publisher()
    async with running(publisher) as (schemas, changed):
        for _ in range(3):
            schemas.watch_begins(PODS)
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
        schemas.watch_begins(PODS)
        await asyncio.sleep(CHECKS[0] + 1)
        publisher.publish("metadata", "spec")
        await asyncio.sleep(CHECKS[1])
        assert fields(schemas) == ["metadata", "spec"]
        assert changed == [PODS, PODS, PODS], (
            "when it is found, and when the objects are read again"
        )


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"error": NotSent("connection refused")}, "connection refused"),
        ({"index": "not JSON"}, "GET /openapi/v3"),
        ({"index": {"paths": []}}, "GET /openapi/v3"),
        ({"body": b"{"}, "Input data was truncated"),
        ({"body": b'{"a":' * 100_000 + b"1" + b"}" * 100_000}, "recursion"),
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


async def test_what_fails_is_tried_again_soon_and_then_each_minute():
    publisher = Publisher(error=NotSent("connection refused"))
    async with running(publisher) as (_, changed):
        await asyncio.sleep(160)
        assert publisher.times == [0, 1, 6, 36, 96, 156]
        assert changed == [PODS], "the same error is news once"


async def test_a_watch_that_begins_puts_off_all_checks_but_the_next():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.times.clear()
        for namespace, pause in [("a", 0.5), ("b", 0.1), ("c", 100)]:
            schemas.watch_begins(PODS, namespace)
            await asyncio.sleep(pause)
        assert publisher.times == pytest.approx([1, 1.6, 6.6, 36.6])


async def test_watches_that_begin_together_have_their_checks_together():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.times.clear()
        for namespace in "abc":
            schemas.watch_begins(PODS, namespace)
            for _ in range(9):
                await asyncio.sleep(0)
        await asyncio.sleep(100)
        assert publisher.times == [1, 6, 36]


async def test_one_unreadable_document_makes_the_reading_incomplete():
    client: Any = Publisher(body=b"{")
    with capture_logs() as logs:
        schemas = InstalledSchemas(client, [PODS, CRDS], on_change=lambda _: None, reread=unread)
        assert not await schemas._read()
    error = schemas.found[PODS].error
    assert logs == [
        {
            "event": "schema.unreadable",
            "resource": "pods",
            "error": error,
            "log_level": "warning",
        }
    ]


async def test_a_server_that_never_answers_delays_the_start_by_seconds_only():
    class Silent(Publisher):
        async def request_json(self, method: str, path: str) -> Any:
            await asyncio.Event().wait()

    silent: Any = Silent()
    schemas = InstalledSchemas(silent, [PODS, SERVICES], on_change=lambda _: None, reread=unread)
    ready = asyncio.Event()
    task = asyncio.create_task(schemas.run(ready.set))
    began = asyncio.get_running_loop().time()
    await ready.wait()
    assert asyncio.get_running_loop().time() - began <= 5
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_until_the_objects_are_read_again_the_schema_before_counts_too():
    """What a definition drops is missing in the cache until a list has replaced it."""
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.reading.clear()
        publisher.publish("spec", "status")
        schemas.watch_begins(PODS)
        await asyncio.sleep(CHECKS[0] + 0.1)
        previous = schemas.found[PODS].previous
        assert previous is not None
        assert (sorted(previous.properties), fields(schemas)) == (["spec"], ["spec", "status"])
        assert not is_current(schemas)
        publisher.reading.set()
        await asyncio.sleep(0.1)
        assert (schemas.found[PODS].previous, fields(schemas)) == (None, ["spec", "status"])


async def test_a_document_that_changes_elsewhere_has_no_object_read_again():
    publisher = Publisher()
    async with running(publisher) as (schemas, changed):
        publisher.publish("spec")
        schemas.watch_begins(PODS)
        await asyncio.sleep(CHECKS[0] + 1)
        assert publisher.read.count("/openapi/v3/api/v1") == 2
        assert "all pods" not in publisher.read
        assert changed == [PODS]


async def test_objects_that_cannot_be_read_again_are_tried_again():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.reading.clear()
        publisher.publish("spec", "status")
        schemas.watch_begins(PODS)
        await asyncio.sleep(CHECKS[0] + 20 * RETRY)
        assert publisher.read.count("all pods") >= 10
        assert schemas.found[PODS].previous is not None
        assert not is_current(schemas)
        publisher.reading.set()
        await asyncio.sleep(2 * RETRY)
        assert schemas.found[PODS].previous is None


# -- by which schema cached objects were read --------------------------------------------------


def is_current(schemas: InstalledSchemas) -> bool:
    return schemas.found[PODS].is_current


async def test_the_first_reading_counts_for_the_watches_before_it():
    publisher = Publisher()
    client: Any = publisher
    schemas = InstalledSchemas(client, [PODS], on_change=lambda _: None, reread=publisher.reread)
    schemas.watch_begins(PODS)
    schemas.edited(PODS, "default/a")
    task = asyncio.create_task(schemas.run(lambda: None))
    await asyncio.sleep(0.1)
    assert is_current(schemas)
    assert schemas.unverified == {PODS: {}}
    assert "all pods" not in publisher.read
    await asyncio.sleep(3599.9)
    schemas.edited(PODS, "default/a")
    await asyncio.sleep(3600)
    assert publisher.times == pytest.approx([0, 3600 + CHECKS[0]]), "it is no watch"
    task.cancel()


async def test_a_schema_is_not_current_while_it_cannot_be_read_after_a_watch_had_begun():
    publisher = Publisher()
    with capture_logs() as logs:
        async with running(publisher) as (schemas, changed):
            publisher.error = NotSent("connection refused")
            schemas.watch_begins(PODS)
            await asyncio.sleep(sum(CHECKS) + 1)
            assert (is_current(schemas), schemas.found[PODS].error) == (False, "connection refused")
            publisher.error = None
            await asyncio.sleep(RETRY)
            assert (is_current(schemas), schemas.found[PODS].error) == (True, "")
            assert changed == [PODS]
    assert [line["event"] for line in logs] == ["schema.unreadable"]


async def test_a_schema_that_was_never_shown_is_as_current_as_it_can_be():
    publisher = Publisher(error=Forbidden(Status(403, "Forbidden", "not for you")))
    async with running(publisher) as (schemas, _):
        assert (is_current(schemas), schemas.found[PODS].error) == (True, "not for you")
        schemas.watch_begins(PODS)
        await asyncio.sleep(CHECKS[0] + 0.1)
        assert (is_current(schemas), schemas.found[PODS].error) == (True, "not for you")


async def test_nobody_waits_for_what_the_server_refuses_to_show():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.error = Forbidden(Status(403, "Forbidden", "not for you"))
        schemas.watch_begins(PODS)
        await asyncio.sleep(CHECKS[0] + 0.1)
        assert is_current(schemas)
        assert fields(schemas) == ["spec"]


async def test_objects_of_a_watch_during_which_no_schema_was_read_are_read_again():
    """Another definition may have been there for so long: it would have dropped their fields."""
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        for everywhere in ((), ("",)):
            schemas.watch_begins(PODS, *everywhere)
            await asyncio.sleep(0.1)
        await asyncio.sleep(CHECKS[0])
        assert publisher.read.count("all pods") == 1
        assert not is_current(schemas)
        schemas.watch_begins(PODS)  # as reading again does
        await asyncio.sleep(sum(CHECKS) + 1)
        assert is_current(schemas)
        assert publisher.read.count("all pods") == 1


async def test_after_objects_were_read_again_there_are_checks_as_after_a_watch():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.times.clear()
        for _ in range(2):
            schemas.watch_begins(PODS)
        await asyncio.sleep(100)
        assert publisher.times == [1, 2, 7, 37]
        assert is_current(schemas)


@pytest.mark.parametrize("watched", [True, False])
async def test_objects_that_cannot_be_read_again_hold_no_other_kind_of_their_document(
    watched: bool,
):
    publisher = Publisher(body=document("spec", kinds=("Pod", "Service")))
    client: Any = publisher

    async def reread(resource: Any) -> None:
        if resource is PODS:
            await asyncio.Event().wait()

    schemas = InstalledSchemas(client, [PODS, SERVICES], on_change=lambda _: None, reread=reread)
    task = asyncio.create_task(schemas.run(lambda: None))
    await asyncio.sleep(0.1)
    publisher.publish("spec", "status", kinds=("Pod", "Service"))
    schemas.watch_begins(PODS)
    if watched:
        schemas.watch_begins(SERVICES)
    await asyncio.sleep(CHECKS[0] + RETRY + 0.1)
    service = schemas.found[SERVICES]
    assert service.schema is not None
    assert sorted(service.schema.properties) == ["spec", "status"]
    assert (service.previous, service.is_current) == (None, not watched)
    assert schemas.found[PODS].previous is not None
    task.cancel()


async def test_objects_that_could_not_be_read_again_after_such_a_watch_are_tried_again():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.reading.clear()
        for _ in range(2):
            schemas.watch_begins(PODS)
        await asyncio.sleep(CHECKS[0] + 2 * RETRY)
        assert not is_current(schemas)
        assert publisher.read.count("all pods") > 1
        publisher.reading.set()
        await asyncio.sleep(2 * RETRY)
        assert is_current(schemas)


# -- by which schema edited objects were read --------------------------------------------------


async def test_an_edit_has_the_index_read_once_when_a_changed_definition_is_published():
    publisher = Publisher()
    async with running(publisher) as (schemas, changed):
        publisher.times.clear()
        schemas.edited(PODS, "default/a")
        await asyncio.sleep(CHECKS[0] - 0.1)
        assert list(schemas.unverified[PODS]) == ["default/a"]
        await asyncio.sleep(0.2)
        assert (schemas.unverified[PODS], publisher.verified) == ({}, ["default/a"])
        await asyncio.sleep(3600)
        assert publisher.times == [CHECKS[0]]
        assert is_current(schemas)
        assert changed == [PODS]


async def test_an_edit_is_verified_by_the_schema_that_was_published_after_it():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        schemas.edited(PODS, "default/a")
        publisher.publish("metadata")
        found: list[list[str]] = []
        schemas._on_verified = lambda _resource, _keys: found.append(fields(schemas))
        await asyncio.sleep(CHECKS[0] + 0.1)
        assert found == [["metadata"]]


async def test_edits_all_the_time_are_verified_soon_and_cause_few_readings():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.times.clear()
        for number in range(50):
            schemas.edited(PODS, f"default/{number}")
            await asyncio.sleep(0.1)
            waiting = [
                asyncio.get_running_loop().time() - t for t in schemas.unverified[PODS].values()
            ]
            assert max(waiting) <= CHECKS[0] + SPACING
        await asyncio.sleep(10)
        assert len(publisher.verified) == 50
        assert len(publisher.times) <= 6 / SPACING


@pytest.mark.parametrize(
    ("edited", "read"),
    [
        (0.05, [1, 6, 36]),
        (0.3, [1, 1.5, 6, 36]),
        (0.6, [1, 1.6, 6, 36]),
        (4.4, [1, 5.4, 6, 36]),
        (4.5, [1, 6, 36]),
        (5.1, [1, 6, 36]),
    ],
)
async def test_an_edit_is_checked_with_a_watch_if_that_is_soon_but_not_too_soon(
    edited: float, read: list[float]
):
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.times.clear()
        schemas.watch_begins(PODS)
        await asyncio.sleep(edited)
        schemas.edited(PODS, "default/a")
        first = next(time for time in read if time >= edited + PUBLICATION)
        await asyncio.sleep(first - edited - 0.01)
        assert publisher.verified == []
        await asyncio.sleep(0.02)
        assert publisher.verified == ["default/a"]
        await asyncio.sleep(100)
        assert publisher.times == pytest.approx(read)


async def test_an_edit_while_the_schema_cannot_be_read_is_tried_again_soon_as_the_first():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.error = NotSent("connection refused")
        publisher.times.clear()
        schemas.edited(PODS, "default/a")
        await asyncio.sleep(100)
        schemas.edited(PODS, "default/b")
        await asyncio.sleep(130)
        assert publisher.times == [1, 7, 37, 97, 101, 157, 163, 193]


async def test_an_edit_stays_unverified_while_the_schema_cannot_be_read_and_this_is_reported_once():
    publisher = Publisher()
    async with running(publisher) as (schemas, changed):
        publisher.error = NotSent("connection refused")
        publisher.times.clear()
        schemas.edited(PODS, "default/a")
        await asyncio.sleep(160)
        assert publisher.times == [1, 7, 37, 97, 157]
        assert (list(schemas.unverified[PODS]), publisher.verified) == (
            ["default/a"],
            ["default/a"],
        )
        assert schemas.found[PODS].error == "connection refused"
        publisher.error = None
        await asyncio.sleep(RETRY)
        assert (schemas.unverified[PODS], publisher.verified) == ({}, ["default/a"] * 2)
        assert (schemas.found[PODS].error, changed) == ("", [PODS])


async def test_no_edit_waits_for_what_the_server_refuses_to_show():
    publisher = Publisher()
    async with running(publisher) as (schemas, _):
        publisher.error = Forbidden(Status(403, "Forbidden", "not for you"))
        schemas.edited(PODS, "default/a")
        await asyncio.sleep(CHECKS[0] + 0.1)
        assert (schemas.unverified[PODS], publisher.verified) == ({}, ["default/a"])
