"""Lookups of what a container wrote last: every one of them comes to an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controller.devcluster.logs import SimulatedLogs
from controller.kube.client import Client
from controller.kube.resources import PODS
from controller.runtime.expectations.owners import MAX_LOG_TAILS
from controller.runtime.reconcile.kind import LogText
from controller.runtime.reconcile.plan import LogTail, Plan
from controller.runtime.reconcile.writer import Writer
from tests.faults.faulty_transport import ErrorResponse, FaultyTransport, Rule
from tests.runtime.flock import FlockKind
from tests.runtime.kit import OWNER, Book

if TYPE_CHECKING:
    from controller.runtime.reconcile.kind import CacheReader
    from tests.faults.faulty_transport import RequestFault
    from tests.runtime.flock import FlockWorld, Seen

TAIL = LogTail("default", "song=morning", "bird", lines=1)


async def add_pod(world: FlockWorld, name: str, *, started: bool = True) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"song": "morning"}},
        "spec": {"containers": [{"name": "bird", "image": "b:1", "args": [f"sing {name}"]}]},
    }
    await world.user.create(PODS, "default", body)
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if started else {"waiting": {}}
    statuses = [{"name": "bird", "state": state, "image": "b:1"}]
    await world.user.merge_patch(
        PODS, "default", name, {"status": {"containerStatuses": statuses}}, subresource="status"
    )


async def look(world: FlockWorld, tail: LogTail = TAIL, *, fault: RequestFault | None = None):
    """What a lookup leaves in the ledger, read through its own transport."""
    world.server.hooks.pod_log = SimulatedLogs(world.server)
    rules = [Rule(fault, "pods")] if fault is not None else []
    transport = FaultyTransport(world.server, rules, clock=world.loop)
    book = Book()
    client = Client(transport, user_agent="reader", clock=world.loop)
    assert await Writer(client, book.expectations).look_up(OWNER, tail) is None
    return book.expectations.reader.log_tail(tail, OWNER.uid)


async def test_the_newest_pod_is_asked_for_its_last_lines(flocks: FlockWorld):
    await add_pod(flocks, "z")
    await flocks.settle(2)
    await add_pod(flocks, "a")
    assert await look(flocks) == LogText("simulated, not run: sing a\n")


async def test_no_pod_is_an_answer(flocks: FlockWorld):
    assert await look(flocks) == LogText(unavailable="there is no pod with song=morning")


async def test_a_container_that_has_not_started_is_an_answer(flocks: FlockWorld):
    await add_pod(flocks, "a", started=False)
    text = await look(flocks)
    assert text is not None
    assert "waiting to start" in text.unavailable
    assert not text.text


@pytest.mark.parametrize("verb", ["list", "get"])
async def test_missing_rights_are_an_answer(flocks: FlockWorld, verb: str):
    await add_pod(flocks, "a")
    flocks.server.audit.authorizer = lambda asked: (
        asked.verb != verb or asked.user_agent != "reader"
    )
    text = await look(flocks)
    assert text is not None
    assert "forbidden" in text.unavailable.lower()


async def test_a_server_that_cannot_be_reached_is_an_answer(flocks: FlockWorld):
    await add_pod(flocks, "a")
    before = flocks.loop.time()
    text = await look(flocks, fault=ErrorResponse(500))
    assert text is not None
    assert text.unavailable
    assert flocks.loop.time() - before < 120


async def test_only_the_end_of_long_lines_is_kept(flocks: FlockWorld):
    await add_pod(flocks, "a")
    text = await look(flocks, replace(TAIL, limit_bytes=7))
    assert text == LogText("sing a\n")


async def test_a_planner_gets_the_answer_and_goes_on(flocks: FlockWorld):
    await add_pod(flocks, "a")
    flocks.server.hooks.pod_log = SimulatedLogs(flocks.server)
    answers: list[LogText | None] = []

    class Listener(FlockKind):
        def observe(self, key: str, reads: CacheReader) -> Seen | None:
            seen = super().observe(key, reads)
            if seen is not None:
                answers.append(reads.log_tail(TAIL, seen.flock.metadata.uid))
            return seen

        def plan(self, observation: Seen, now: Any) -> Plan:
            return Plan(lookups=(TAIL,)) if answers[-1] is None else Plan()

    flocks.start(kind=Listener())
    await flocks.create(size=0)
    await flocks.settle(5)
    assert answers == [None, LogText("simulated, not run: sing a\n")]


def test_answers_belong_to_their_owner_and_go_with_it():
    book = Book()
    book.expectations.record_log_tail(OWNER, TAIL, LogText("la"))
    reads = book.expectations.reader
    assert reads.log_tail(TAIL, OWNER.uid) == LogText("la")
    assert reads.log_tail(TAIL, "another owner") is None
    assert reads.log_tail(replace(TAIL, container="other"), OWNER.uid) is None
    book.expectations.remove_owner(OWNER.controller, OWNER.key)
    book.expectations.add_owner(OWNER)
    assert reads.log_tail(TAIL, OWNER.uid) is None


def test_only_the_newest_answers_are_kept():
    book = Book()
    tails = [replace(TAIL, container=f"c{number}") for number in range(MAX_LOG_TAILS + 1)]
    for tail in tails:
        book.expectations.record_log_tail(OWNER, tail, LogText("la"))
    kept = [
        tail for tail in tails if book.expectations.reader.log_tail(tail, OWNER.uid) is not None
    ]
    assert kept == tails[1:]
