"""Lookups, live lists and tails of logs: what planners are told, and that each has an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.kube.client import Client
from controller.kube.errors import KubeError, OutcomeUnknown
from controller.kube.objects import ConfigMap, KubeObject
from controller.kube.resources import CONFIG_MAPS, PODS
from controller.runtime.execution import LookupReader
from controller.runtime.kind import CacheReader, LogText
from controller.runtime.plan import (
    Create,
    LiveList,
    LogTail,
    Lookup,
    Plan,
    ReplicaMember,
    Target,
    subject_of,
)
from controller.runtime.repairs import WHOLE
from controller.testing.faults import ErrorResponse, FaultyTransport, RequestFault, Rule
from devcluster.logs import SimulatedLogs
from tests.runtime.kit import OWNER, Book, child, create, status_error, target
from tests.runtime.recording import RecordingClient, RecordingExpectations
from tests.runtime.widgets import Seen, WidgetKind, WidgetWorld

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
    assert desk.expectations.told == [("logs", TAIL, LogText("la\n"))]


async def test_the_earlier_log_of_a_pod_is_read_by_its_name():
    desk = Desk("la\n")
    tail = replace(TAIL, pod="b", previous=True)
    assert await desk.look_up(tail) is None
    limits = {"container": "child", "lines": 3, "limit_bytes": 64, "previous": True}
    assert desk.client.requests == [("read_log_tail", "default", "b", limits)]
    assert desk.expectations.told == [("logs", tail, LogText("la\n"))]


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


WIDGET = LiveList(CONFIG_MAPS, "default", "widget=f")


@pytest.fixture
def book() -> Book:
    return Book()


def member(name: str, position: int, size: int = 3) -> Create:
    return replace(create(name), member=ReplicaMember("unit", position, size))


def made(book: Book, write: Create, revision: int) -> None:
    book.expectations.expect(OWNER, write)
    book.expectations.confirm(OWNER, write, child(write.target.name, revision))


def test_a_list_counts_until_something_of_its_resource_is_made(book: Book):
    reads = book.expectations.reader
    assert not reads.record(OWNER.uid).has_listed(WIDGET)
    book.expectations.record(OWNER.uid).lists.add(WIDGET)
    book.expectations.record(OWNER.uid).lists.add(LiveList(PODS, "default", "x=y"))
    assert reads.record(OWNER.uid).has_listed(WIDGET)
    assert not reads.record("another owner").has_listed(WIDGET)
    assert not reads.record(OWNER.uid).has_listed(replace(WIDGET, label_selector="widget=g"))

    book.unmake("a")
    assert reads.record(OWNER.uid).has_listed(WIDGET), "what goes does not make a list incomplete"
    book.expectations.expect(OWNER, create("b"))
    assert not reads.record(OWNER.uid).has_listed(WIDGET)
    assert reads.record(OWNER.uid).has_listed(LiveList(PODS, "default", "x=y"))


def test_a_unit_is_remembered_from_its_first_member_to_the_one_before_the_last(book: Book):
    reads = book.expectations.reader
    assert reads.record(OWNER.uid).replicas == {}
    made(book, member("a", 0), 10)
    assert reads.record(OWNER.uid).replicas == {"unit": 1}
    book.expectations.expect(OWNER, member("b", 1))
    book.expectations.mark_failed(OWNER, member("b", 1))
    assert reads.record(OWNER.uid).replicas == {"unit": 1}
    made(book, member("b", 1), 11)
    assert reads.record(OWNER.uid).replicas == {"unit": 2}
    made(book, member("c", 2), 12)
    assert reads.record(OWNER.uid).replicas == {}
    assert reads.record("another owner").replicas == {}


def test_units_and_lists_are_forgotten_with_their_owner(book: Book):
    made(book, member("a", 0), 10)
    book.expectations.record(OWNER.uid).lists.add(WIDGET)
    book.expectations.remove_owner(OWNER.controller, OWNER.key)
    book.expectations.add_owner(OWNER)
    assert book.expectations.reader.record(OWNER.uid).replicas == {}
    assert not book.expectations.reader.record(OWNER.uid).has_listed(WIDGET)


LAST_LINE = LogTail("default", "song=morning", "child", lines=1)


async def add_pod(world: WidgetWorld, name: str, *, started: bool = True) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"song": "morning"}},
        "spec": {"containers": [{"name": "child", "image": "b:1", "args": [f"sing {name}"]}]},
    }
    await world.user.create(PODS, "default", body)
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if started else {"waiting": {}}
    statuses = [{"name": "child", "state": state, "image": "b:1"}]
    await world.user.merge_patch(
        PODS, "default", name, {"status": {"containerStatuses": statuses}}, subresource="status"
    )


async def look(world: WidgetWorld, tail: LogTail = LAST_LINE, *, fault: RequestFault | None = None):
    """The log tail that a lookup records, read through its own transport."""
    world.server.hooks.pod_log = SimulatedLogs(world.server)
    rules = [Rule(fault, "pods")] if fault is not None else []
    transport = FaultyTransport(world.server, rules, clock=world.loop)
    book = Book()
    client = Client(transport, user_agent="reader", clock=world.loop)
    assert await LookupReader(client, book.expectations).look_up(OWNER, tail) is None
    return book.expectations.reader.record(OWNER.uid).log_tail(tail)


async def test_the_newest_pod_is_asked_for_its_last_lines(widgets: WidgetWorld):
    await add_pod(widgets, "z")
    await widgets.settle(2)
    await add_pod(widgets, "a")
    assert await look(widgets) == LogText("simulated, not run: sing a\n")


async def test_no_pod_is_an_answer(widgets: WidgetWorld):
    assert await look(widgets) == LogText(unavailable="there is no pod with song=morning")


async def test_a_container_that_has_not_started_is_an_answer(widgets: WidgetWorld):
    await add_pod(widgets, "a", started=False)
    text = await look(widgets)
    assert text is not None
    assert "waiting to start" in text.unavailable
    assert not text.text


@pytest.mark.parametrize("verb", ["list", "get"])
async def test_missing_rights_are_an_answer(widgets: WidgetWorld, verb: str):
    await add_pod(widgets, "a")
    widgets.server.audit.authorizer = lambda asked: (
        asked.verb != verb or asked.user_agent != "reader"
    )
    text = await look(widgets)
    assert text is not None
    assert "forbidden" in text.unavailable.lower()


async def test_a_server_that_cannot_be_reached_is_an_answer(widgets: WidgetWorld):
    await add_pod(widgets, "a")
    before = widgets.loop.time()
    text = await look(widgets, fault=ErrorResponse(500))
    assert text is not None
    assert text.unavailable
    assert widgets.loop.time() - before < 120


async def test_only_the_end_of_long_lines_is_kept(widgets: WidgetWorld):
    await add_pod(widgets, "a")
    text = await look(widgets, replace(LAST_LINE, limit_bytes=7))
    assert text == LogText("sing a\n")


async def test_a_planner_gets_the_answer_and_goes_on(widgets: WidgetWorld):
    await add_pod(widgets, "a")
    widgets.server.hooks.pod_log = SimulatedLogs(widgets.server)
    answers: list[LogText | None] = []

    class Listener(WidgetKind):
        def observe(self, key: str, reads: CacheReader) -> Seen | None:
            seen = super().observe(key, reads)
            if seen is not None:
                answers.append(reads.record(seen.widget.metadata.uid).log_tail(LAST_LINE))
            return seen

        def plan(self, observation: Seen, now: Any) -> Plan:
            return Plan(lookups=(LAST_LINE,)) if answers[-1] is None else Plan()

    widgets.start(kind=Listener())
    await widgets.create(size=0)
    await widgets.settle(5)
    assert answers == [None, LogText("simulated, not run: sing a\n")]


def test_answers_belong_to_their_owner_and_go_with_it():
    book = Book()
    book.expectations.record(OWNER.uid).logs[LAST_LINE] = LogText("la")
    reads = book.expectations.reader
    assert reads.record(OWNER.uid).log_tail(LAST_LINE) == LogText("la")
    assert reads.record("another owner").log_tail(LAST_LINE) is None
    assert reads.record(OWNER.uid).log_tail(replace(LAST_LINE, container="other")) is None
    book.expectations.remove_owner(OWNER.controller, OWNER.key)
    book.expectations.add_owner(OWNER)
    assert reads.record(OWNER.uid).log_tail(LAST_LINE) is None
