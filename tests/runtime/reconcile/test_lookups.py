"""The requests of lookups, and what becomes visible to `observe`."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from controller.kube.errors import KubeError, OutcomeUnknown
from controller.kube.objects import ConfigMap, KubeObject
from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.kind import LogText
from controller.runtime.plan import LiveList, LogTail, Lookup, Target
from controller.runtime.reconcile.lookups import LookupReader, subject_of
from controller.runtime.reconcile.repairs import WHOLE
from tests.runtime.kit import OWNER, child, status_error, target
from tests.runtime.recording import RecordingClient, RecordingExpectations

LOOKUP = Lookup(target("a"))
LIST = LiveList(CONFIG_MAPS, "default", "widget=f")
TAIL = LogTail("default", "song=morning", "child", lines=3, limit_bytes=64)
MISSING = status_error(404, "NotFound")
LOST = OutcomeUnknown("reset")


class Desk:
    def __init__(self, *responses: Any, known: ConfigMap | None = None) -> None:
        self.client: Any = RecordingClient(*responses)
        found = {Target(CONFIG_MAPS, "default", known.metadata.name): known} if known else {}
        self.expectations: Any = RecordingExpectations(found)
        self.reader = LookupReader(self.client, self.expectations)

    async def look_up(self, lookup: Any) -> KubeError | None:
        return await self.reader.look_up(OWNER, lookup)


def page(*names: str, then: str = "", owner: str = OWNER.uid) -> Any:
    return SimpleNamespace(items=[child(name, owner=owner) for name in names], continue_=then)


def pod(name: str, created: str | None) -> KubeObject:
    obj = child(name)
    return KubeObject(metadata=msgspec.structs.replace(obj.metadata, creation_timestamp=created))


def pods(*found: KubeObject) -> Any:
    return SimpleNamespace(items=list(found))


@pytest.mark.parametrize(
    ("lookup", "subject"),
    [
        (LOOKUP, "ConfigMap a"),
        (LIST, "the list of configmaps with widget=f"),
        (TAIL, "the log of child in pods with song=morning"),
        (replace(TAIL, pod="b"), "the log of child in b"),
    ],
)
def test_messages_name_what_is_read(lookup: Any, subject: str):
    assert subject_of(lookup) == subject


@pytest.mark.parametrize(("response", "found"), [(child("a"), child("a")), (MISSING, None)])
async def test_a_lookup_records_the_object_or_that_there_is_none(response: Any, found: Any):
    desk = Desk(response)
    assert await desk.look_up(LOOKUP) is None
    assert desk.client.requests == [("get", CONFIG_MAPS, "default", "a")]
    assert desk.expectations.told == [("record_lookup", target("a"), found)]


async def test_a_lookup_whose_read_fails_records_nothing():
    desk = Desk(LOST)
    assert await desk.look_up(LOOKUP) is LOST
    assert desk.expectations.told == []


async def test_a_live_list_has_pages_and_reads_what_no_cache_shows():
    known = child("b")
    desk = Desk(page("a", "b", then="more"), child("a"), page("c"), MISSING, known=known)
    assert await desk.look_up(LIST) is None
    options = {"label_selector": "widget=f", "limit": 500}
    assert desk.client.requests == [
        ("list_metadata", CONFIG_MAPS, "default", {**options, "continue_": ""}),
        ("get", CONFIG_MAPS, "default", "a"),
        ("list_metadata", CONFIG_MAPS, "default", {**options, "continue_": "more"}),
        ("get", CONFIG_MAPS, "default", "c"),
    ]
    assert desk.expectations.told == [
        ("record_lookup", Target(CONFIG_MAPS, "default", "a"), child("a")),
        ("record_lookup", Target(CONFIG_MAPS, "default", "c"), None),
        ("list", LIST),
    ]


async def test_a_live_list_leaves_objects_of_other_owners_alone():
    desk = Desk(page("a", owner="another"))
    assert await desk.look_up(LIST) is None
    assert desk.expectations.told == [("list", LIST)]


@pytest.mark.parametrize("responses", [(LOST,), (page("a"), LOST)])
async def test_a_live_list_is_not_recorded_if_a_part_of_it_cannot_be_read(responses: Any):
    desk = Desk(*responses)
    assert await desk.look_up(LIST) is LOST
    assert desk.expectations.told == []


@pytest.mark.parametrize(
    "others",
    [
        [pod("z", "2026-01-01T00:00:00Z"), pod("y", None)],
        [pod("a", "2026-01-01T00:00:01Z")],
    ],
    ids=["older", "as old"],
)
async def test_the_log_of_the_newest_pod_is_read(others: list[KubeObject]):
    desk = Desk(pods(pod("b", "2026-01-01T00:00:01Z"), *others), "la\n")
    assert await desk.look_up(TAIL) is None
    limits = {"container": "child", "lines": 3, "limit_bytes": 64, "previous": False}
    assert desk.client.requests == [
        ("list_metadata", PODS, "default", {"label_selector": "song=morning"}),
        ("read_log_tail", "default", "b", limits),
    ]
    assert desk.expectations.told == [("keep_log", TAIL, LogText("la\n"))]


async def test_the_earlier_log_of_a_pod_is_read_by_its_name():
    desk = Desk("la\n")
    tail = replace(TAIL, pod="b", previous=True)
    assert await desk.look_up(tail) is None
    limits = {"container": "child", "lines": 3, "limit_bytes": 64, "previous": True}
    assert desk.client.requests == [("read_log_tail", "default", "b", limits)]
    assert desk.expectations.told == [("keep_log", tail, LogText("la\n"))]


@pytest.mark.parametrize(
    ("responses", "reason"),
    [
        ((pods(),), "there is no pod with song=morning"),
        ((LOST,), "reset"),
        ((pods(pod("a", None)), LOST), "reset"),
    ],
)
async def test_a_log_that_is_unavailable_is_an_answer(responses: tuple[Any, ...], reason: str):
    desk = Desk(*responses)
    assert await desk.look_up(TAIL) is None
    assert desk.expectations.told == [("keep_log", TAIL, LogText(unavailable=reason))]


async def test_of_a_deletion_nothing_is_read():
    desk = Desk()
    assert await desk.reader.other_writers(target(), [WHOLE]) == ["another writer"]
    assert desk.client.requests == []


async def test_the_other_writer_is_found_in_the_live_object():
    entries = [
        {"manager": "manta", "fieldsV1": {"f:data": {"f:colour": {}}}},
        {"manager": "mesh", "fieldsV1": {"f:data": {"f:colour": {}}}},
    ]
    desk = Desk({"metadata": {"managedFields": entries}}, LOST)
    path = ("data", "colour")
    paths = [path, WHOLE, path]
    found = ["another writer (mesh)", "another writer", "another writer (mesh)"]
    assert await desk.reader.other_writers(target(), paths) == found
    assert desk.client.requests == [("get_raw", CONFIG_MAPS, "default", "a")]
    assert await desk.reader.other_writers(target(), [path]) == ["another writer"], "not known"
