"""What a candidate does at the edges of its time, and what it says meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.kube.errors import NotSent
from controller.runtime.elector import Elector
from tests.fakes.clean_up import ends_in_a_cancelled_task
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


@pytest.mark.parametrize("seconds", [1.5, 2.5])
async def test_the_log_tells_when_a_lease_that_was_deleted_is_made_anew(seconds: float):
    lock, loop = SharedLock(), asyncio.get_running_loop()
    lock.taken_by("other")
    made, began = candidate(lock), loop.time()
    with capture_logs() as logs:
        acquiring = asyncio.create_task(made.acquire())
        await asyncio.sleep(seconds)
        lock.lease = None
        await asyncio.sleep(1.2)
        missed = lock.asked_at[-1]
        await acquiring
    await made.aclose()
    assert logs[1]["created_after_seconds"] == round(began + 15 - missed, 1)
    assert logs[1]["event"] == "election.no_lease"


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


async def test_a_leader_leads_no_more_at_the_moment_when_its_time_is_up():
    lock, loop = SharedLock(), asyncio.get_running_loop()
    now = loop.time()
    made = elector(lock, now=lambda: now)
    await made.acquire()
    now += 10
    assert not made.is_leader()
    await made.aclose()


async def test_a_server_that_fails_when_the_lease_expires_is_not_pressed():
    lock = SharedLock()
    lock.taken_by("other")
    made = candidate(lock)
    acquiring = asyncio.create_task(made.acquire())
    await asyncio.sleep(1)
    lock.failure = NotSent("connection refused")
    before = len(lock.asked_at)
    await asyncio.sleep(30)
    assert 25 <= len(lock.asked_at) - before <= 40
    acquiring.cancel()
    await made.aclose()


async def test_a_release_writes_the_time_of_the_release():
    lock = SharedLock()
    made = candidate(lock)
    await made.acquire()
    await asyncio.sleep(1)
    await made.release()
    assert lock.lease is not None
    assert lock.lease.record["renewTime"] > "2026-01-01T00:00:01"


async def test_a_release_without_an_answer_ends_even_in_a_task_that_has_been_cancelled():
    lock = SharedLock()
    made = candidate(lock)
    await made.acquire()
    lock.delay = 1000
    assert await ends_in_a_cancelled_task(made.release())


async def test_a_leader_renews_every_two_seconds():
    lock = SharedLock()
    made = candidate(lock)
    await made.acquire()
    before = lock.revision
    await asyncio.sleep(20.5)
    assert lock.revision - before == 10
    await made.aclose()


async def test_a_candidate_looks_twice_in_each_retry_period():
    lock = SharedLock()
    lock.taken_by("other")
    made = candidate(lock)
    acquiring = asyncio.create_task(made.acquire())
    await asyncio.sleep(12)
    acquiring.cancel()
    await made.aclose()
    pauses = [later - earlier for earlier, later in pairwise(lock.asked_at)]
    assert all(0.8 <= pause <= 1.2 for pause in pauses)
    assert max(pauses) - min(pauses) > 0.05


async def test_what_ends_an_election_is_raised_where_it_is_awaited():
    lock = SharedLock()
    lock.failure = RuntimeError("a fault of ours")
    made = candidate(lock)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        await made.acquire()
    await made.lost()
