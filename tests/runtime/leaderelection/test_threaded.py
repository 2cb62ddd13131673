"""An election on its own thread, in real time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from controller.runtime import election
from controller.runtime.election import ThreadedElection, awake_or_not
from controller.runtime.elector import Elector
from controller.runtime.settings import ElectionTiming
from tests.runtime.leaderelection.kit import SharedLock, elector

pytestmark = pytest.mark.real_time

TIMING = ElectionTiming(lease_seconds=3, renew_seconds=2.0, retry_seconds=0.1)


def candidacy(lock: SharedLock, identity: str = "a") -> ThreadedElection:
    @asynccontextmanager
    async def candidate() -> AsyncIterator[Elector]:
        yield elector(lock, identity, TIMING, wall=lambda: datetime.now(UTC))

    return ThreadedElection(candidate)


@asynccontextmanager
async def without_a_token() -> AsyncIterator[Elector]:
    raise FileNotFoundError("no token")
    yield  # a generator


async def test_a_busy_event_loop_does_not_lose_the_lease():
    lock = SharedLock()
    made = candidacy(lock)
    await made.acquire()
    time.sleep(3.5)  # noqa: ASYNC251  the loop is blocked for longer than the lease lasts
    assert made.is_leader()
    assert lock.holder == "a"
    assert lock.revision > 2
    await made.release()
    await made.aclose()
    assert lock.holder == ""
    assert not made.is_leader()


async def test_without_renewals_nothing_may_be_written_although_nobody_was_told():
    lock = SharedLock()
    made = candidacy(lock)
    await made.acquire()
    lock.delay = 60.0
    time.sleep(2.5)  # noqa: ASYNC251  as above
    assert not made.is_leader()
    assert made.time_left() == 0
    await asyncio.wait_for(made.lost(), 60)
    await made.aclose()


async def test_a_release_waits_for_the_servers_answers():
    lock = SharedLock()
    made = candidacy(lock)
    await made.acquire()
    lock.delay = 0.1
    await made.release()
    assert lock.holder == ""
    await made.aclose()


async def test_what_ends_the_thread_before_it_leads_is_raised():
    made = ThreadedElection(without_a_token)
    with pytest.raises(FileNotFoundError, match="no token"):
        await made.acquire()
    await made.lost()
    await made.release()
    await made.aclose()


async def test_what_ends_the_candidate_before_it_leads_is_raised():
    lock = SharedLock()
    lock.failure = RuntimeError("a fault of ours")
    made = candidacy(lock)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        await made.acquire()
    await made.aclose()


@pytest.mark.parametrize("end", [ThreadedElection.release, ThreadedElection.aclose])
async def test_a_thread_that_ended_a_moment_ago_can_be_stopped(
    end: Callable[[ThreadedElection], Awaitable[None]],
):
    lock = SharedLock()
    lock.failure = RuntimeError("a fault of ours")
    made = candidacy(lock)
    others = set(threading.enumerate())
    acquiring = asyncio.create_task(made.acquire())
    await asyncio.sleep(0)
    for thread in set(threading.enumerate()) - others:
        thread.join()  # what it says at its end waits for this event loop
    await end(made)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        await acquiring


async def test_a_standby_can_be_stopped_and_takes_over_when_the_leader_goes():
    lock = SharedLock()
    leader, standby, third = (candidacy(lock, name) for name in "abc")
    await leader.acquire()
    waiting = asyncio.create_task(standby.acquire())
    ending = asyncio.create_task(third.acquire())
    await asyncio.sleep(0.3)
    ending.cancel()
    await third.release()
    await third.aclose()
    assert not waiting.done()
    await leader.release()
    await leader.aclose()
    await asyncio.wait_for(waiting, 60)
    assert lock.holder == "b"
    await standby.release()
    await standby.aclose()


async def test_an_election_that_is_only_ended_keeps_the_lease():
    lock = SharedLock()
    made = candidacy(lock)
    await made.acquire()
    await made.aclose()
    assert lock.holder == "a"


async def test_what_ends_the_thread_while_it_leads_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(election, "_TOLERANCE", 60.0)
    lock = SharedLock()
    made = candidacy(lock)
    await made.acquire()
    lock.failure = RuntimeError("a fault of ours")
    await asyncio.wait_for(made.lost(), 60)
    assert not made.is_leader()
    await made.aclose()


def test_a_thread_that_outlives_the_event_loop_which_waits_for_it_ends_well():
    closed = asyncio.new_event_loop()
    closed.close()
    ThreadedElection(without_a_token)._work(closed)


def test_the_clock_goes_on_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch):
    asleep = {time.CLOCK_BOOTTIME: 7.0}
    monkeypatch.setattr(time, "clock_gettime", asleep.__getitem__)
    assert awake_or_not() == 7.0
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    monkeypatch.setattr(time, "monotonic", lambda: 3.0)
    assert awake_or_not() == 3.0
