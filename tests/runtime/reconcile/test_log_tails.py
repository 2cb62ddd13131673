"""Lookups of what a container wrote last: every one of them comes to an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.devcluster.logs import SimulatedLogs
from controller.kube.client import Client
from controller.kube.resources import PODS
from controller.runtime.expectations.record import MAX_LOG_TAILS
from controller.runtime.kind import CacheReader, LogText
from controller.runtime.plan import LogTail, Plan
from controller.runtime.reconcile.lookups import LookupReader
from controller.testing.faults import ErrorResponse, FaultyTransport, RequestFault, Rule
from tests.runtime.kit import OWNER, Book
from tests.runtime.widgets import Seen, WidgetKind, WidgetWorld

TAIL = LogTail("default", "song=morning", "child", lines=1)


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


async def look(world: WidgetWorld, tail: LogTail = TAIL, *, fault: RequestFault | None = None):
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
    text = await look(widgets, replace(TAIL, limit_bytes=7))
    assert text == LogText("sing a\n")


async def test_a_planner_gets_the_answer_and_goes_on(widgets: WidgetWorld):
    await add_pod(widgets, "a")
    widgets.server.hooks.pod_log = SimulatedLogs(widgets.server)
    answers: list[LogText | None] = []

    class Listener(WidgetKind):
        def observe(self, key: str, reads: CacheReader) -> Seen | None:
            seen = super().observe(key, reads)
            if seen is not None:
                answers.append(reads.record(seen.widget.metadata.uid).log_tail(TAIL))
            return seen

        def plan(self, observation: Seen, now: Any) -> Plan:
            return Plan(lookups=(TAIL,)) if answers[-1] is None else Plan()

    widgets.start(kind=Listener())
    await widgets.create(size=0)
    await widgets.settle(5)
    assert answers == [None, LogText("simulated, not run: sing a\n")]


def test_answers_belong_to_their_owner_and_go_with_it():
    book = Book()
    book.expectations.record(OWNER.uid).keep_log(TAIL, LogText("la"))
    reads = book.expectations.reader
    assert reads.record(OWNER.uid).log_tail(TAIL) == LogText("la")
    assert reads.record("another owner").log_tail(TAIL) is None
    assert reads.record(OWNER.uid).log_tail(replace(TAIL, container="other")) is None
    book.expectations.remove_owner(OWNER.controller, OWNER.key)
    book.expectations.add_owner(OWNER)
    assert reads.record(OWNER.uid).log_tail(TAIL) is None


def test_only_the_newest_answers_are_kept():
    book = Book()
    tails = [replace(TAIL, container=f"c{number}") for number in range(MAX_LOG_TAILS + 1)]
    for tail in tails:
        book.expectations.record(OWNER.uid).keep_log(tail, LogText("la"))
    kept = [
        tail
        for tail in tails
        if book.expectations.reader.record(OWNER.uid).log_tail(tail) is not None
    ]
    assert kept == tails[1:]
