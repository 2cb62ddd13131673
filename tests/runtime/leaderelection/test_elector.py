"""What a candidate does at the edges of its time, and what it says meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.kube.errors import NotSent
from controller.runtime.elector import Elector
from tests.runtime.leaderelection.kit import NOW, SharedLock, elector


def candidate(lock: SharedLock, registry: CollectorRegistry | None = None) -> Elector:
    loop = asyncio.get_running_loop()
    return elector(
        lock,
        now=loop.time,
        wall=lambda: NOW + timedelta(seconds=loop.time()),
        registry=registry,
    )


async def test_the_log_tells_the_whole_course_of_an_election():
    lock = SharedLock()
    lock.taken_by("other")
    made = candidate(lock)
    with capture_logs() as logs:
        acquiring = asyncio.create_task(made.acquire())
        await asyncio.sleep(1)
        lock.failure = NotSent("connection refused")
        await asyncio.sleep(5)
        assert made.problem == "connection refused"
        lock.failure = None
        await acquiring
        await asyncio.sleep(60)
        lock.taken_by("b")
        await made.lost()
    assert made.problem == ""
    about = {"lease": "default/lease"}
    assert logs == [
        {"event": "election.leader", "log_level": "info", **about, "holder": "other"},
        {
            "event": "election.failing",
            "log_level": "warning",
            **about,
            "error": "connection refused",
        },
        {"event": "election.leader", "log_level": "info", **about, "holder": "a"},
        {"event": "election.acquired", "log_level": "info", **about, "identity": "a"},
        {"event": "election.leader", "log_level": "info", **about, "holder": "b"},
        {"event": "election.lost", "log_level": "error", **about, "holder": "b", "reason": ""},
    ]


async def test_the_log_tells_why_no_process_leads_although_there_is_no_lease():
    lock = SharedLock()
    lock.lease = None
    made = candidate(lock)
    with capture_logs() as logs:
        await made.acquire()
    await made.aclose()
    about = {"log_level": "info", "lease": "default/lease"}
    assert logs == [
        {"event": "election.no_lease", **about, "created_after_seconds": 10.0},
        {"event": "election.leader", **about, "holder": "a"},
        {"event": "election.acquired", **about, "identity": "a"},
    ]


async def test_the_holder_states_how_long_its_lease_lasts():
    lock = SharedLock()
    made = candidate(lock)
    for wait in (0, 5):
        await made.acquire()
        await asyncio.sleep(wait)
        assert lock.lease is not None
        assert lock.lease.record["leaseDurationSeconds"] == 15
    await made.aclose()


async def test_the_log_tells_whether_the_lease_was_released():
    lock = SharedLock()
    made = candidate(lock)
    await made.acquire()
    with capture_logs() as logs:
        await made.release()
    assert logs == [
        {"event": "election.released", "log_level": "info", "lease": "default/lease"},
    ]
    lock = SharedLock()
    made = candidate(lock)
    await made.acquire()
    lock.failure = NotSent("connection refused")
    with capture_logs() as logs:
        await made.release()
    assert logs == [
        {
            "event": "election.not_released",
            "log_level": "warning",
            "lease": "default/lease",
            "error": "connection refused",
        },
    ]


async def test_a_leader_whose_server_does_not_answer_has_lost_when_its_time_is_up():
    lock, loop = SharedLock(), asyncio.get_running_loop()
    made = candidate(lock)
    await made.acquire()
    lock.delay = 3600.0
    left, began = made.time_left(), loop.time()
    await made.lost()
    assert loop.time() - began == pytest.approx(left)
    assert made.problem == "no answer before the lease ends"
    assert made.time_left() == 0
