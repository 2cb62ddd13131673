"""Leader election keeps upstream's promises (client-go `tools/leaderelection`), and ours."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.runtime.elector import (
    LEASES,
    ElectionMetrics,
    Elector,
    Lease,
    LeaseLock,
    election_client,
    new_lease,
)
from controller.runtime.settings import ElectionTiming
from controller.testing.cluster import Cluster, embedded_server, virtual_wall
from controller.testing.faults import (
    DelayedRequest,
    DelayedResponse,
    ErrorResponse,
    FaultyTransport,
    LostResponse,
    Refused,
    Rule,
)

NAMESPACE, NAME = "default", "ray-operator-leader"
TIMING = ElectionTiming()
LEASE = "leases.coordination.k8s.io"


class Candidate:
    def __init__(self, world: Cluster, identity: str, seed: int) -> None:
        self.registry = CollectorRegistry()
        self.transport = FaultyTransport(world.transport, [], clock=world.loop)
        self.identity = identity
        client = election_client(self.transport, TIMING, user_agent=identity, clock=world.loop)
        self.elector = Elector(
            LeaseLock(client, NAMESPACE, NAME),
            identity,
            TIMING,
            now=world.loop.time,
            wall=virtual_wall,
            rng=random.Random(seed),
            metrics=ElectionMetrics(self.registry, NAME),
        )

    def suffers(self, *rules: Rule) -> None:
        self.transport.rules.extend(rules)

    def recovers(self) -> None:
        self.transport.rules.clear()

    def requests(self) -> list[str]:
        return [each.attributes.verb for each in self.transport.journal.entries]

    def sample(self, name: str) -> float | None:
        return self.registry.get_sample_value(name, {"name": NAME})


class Ballot(Cluster):
    """An API server and candidates for one lease."""

    def __init__(self, server: Any) -> None:
        super().__init__(server, virtual_wall)
        self.observer = self.client("test")
        self.candidates: list[Candidate] = []

    def candidate(self, identity: str) -> Candidate:
        made = Candidate(self, identity, len(self.candidates))
        self.candidates.append(made)
        return made

    async def lease(self) -> dict[str, Any]:
        return await self.observer.get_raw(LEASES, NAMESPACE, NAME)

    async def record(self) -> dict[str, Any]:
        return (await self.lease())["spec"]

    async def write(self, **record: Any) -> None:
        """Somebody else writes the record; creates the Lease if there is none."""
        body = new_lease(NAMESPACE, NAME, "other", 15, virtual_wall())
        body["spec"].update(record)
        await self.observer.create(LEASES, NAMESPACE, body)

    async def change(self, **record: Any) -> None:
        body = await self.lease()
        body["spec"].update(record)
        await self.observer.replace(LEASES, NAMESPACE, NAME, body)


@asynccontextmanager
async def ballot() -> AsyncIterator[Ballot]:
    async with embedded_server() as server:
        made = Ballot(server)
        try:
            yield made
        finally:
            for each in made.candidates:
                await each.elector.aclose()


async def seconds_until_acquired(candidate: Candidate) -> float:
    began = asyncio.get_running_loop().time()
    await candidate.elector.acquire()
    return asyncio.get_running_loop().time() - began


async def test_a_lease_that_does_not_exist_is_created():
    async with ballot() as world:
        a = world.candidate("a")
        assert await seconds_until_acquired(a) == pytest.approx(TIMING.renew_seconds, abs=0.1)
        record = await world.record()
        assert record["holderIdentity"] == "a"
        assert record["leaseDurationSeconds"] == 15
        assert record["leaseTransitions"] == 0
        assert record["acquireTime"] == record["renewTime"] == "2026-01-01T00:00:10.000000Z"
        assert a.elector.is_leader()
        assert a.sample("leader_election_master_status") == 1


async def test_a_released_lease_is_taken_at_once_and_the_transition_counted():
    async with ballot() as world:
        await world.write(holderIdentity="", leaseTransitions=4)
        assert await seconds_until_acquired(world.candidate("a")) < 1
        assert (await world.record())["leaseTransitions"] == 5


async def test_a_live_lease_is_not_taken_before_it_was_seen_unchanged_for_its_duration():
    async with ballot() as world:
        await world.write(renewTime="2001-01-01T00:00:00.000000Z", leaseDurationSeconds=30)
        a = world.candidate("a")
        assert 30 <= await seconds_until_acquired(a) < 31, "whatever its holder's clock says"
        assert (await world.record())["leaseTransitions"] == 1


async def test_any_change_of_the_record_restarts_the_observation():
    async with ballot() as world:
        await world.write()
        acquiring = asyncio.create_task(seconds_until_acquired(world.candidate("a")))
        await asyncio.sleep(14)
        await world.change(acquireTime="2026-01-01T00:00:07.000000Z")
        assert 29 <= await acquiring < 31


@pytest.mark.parametrize("odd", [None, 0, -3])
async def test_a_lease_without_a_usable_duration_has_the_usual_one(odd: int | None):
    lease = Lease({"metadata": {}, "spec": {"leaseDurationSeconds": odd, "holderIdentity": None}})
    assert lease.duration(15) == 15
    assert lease.holder == ""
    assert lease.transitions == 0


async def test_a_renewal_keeps_the_time_of_acquisition_and_the_transitions():
    async with ballot() as world:
        await world.write(holderIdentity="", leaseTransitions=4)
        a = world.candidate("a")
        await a.elector.acquire()
        first = await world.record()
        await asyncio.sleep(60)
        last = await world.record()
        assert last["renewTime"] > first["renewTime"]
        assert {**last, "renewTime": ""} == {**first, "renewTime": ""}
        assert a.elector.is_leader()


async def test_a_release_reads_first_and_keeps_what_others_wrote():
    async with ballot() as world:
        a = world.candidate("a")
        await a.elector.acquire()
        body = await world.lease()
        body["metadata"]["labels"] = {"team": "x"}
        await world.observer.replace(LEASES, NAMESPACE, NAME, body)
        await a.elector.release()
        lease = await world.lease()
        assert lease["metadata"]["labels"] == {"team": "x"}
        assert lease["spec"]["holderIdentity"] == ""
        assert lease["spec"]["leaseDurationSeconds"] == 1
        assert a.requests()[-2:] == ["get", "update"]
        assert not a.elector.is_leader()
        assert a.sample("leader_election_master_status") == 0


async def test_a_lease_of_another_holder_is_not_released():
    async with ballot() as world:
        a = world.candidate("a")
        await a.elector.acquire()
        await world.change(holderIdentity="b")
        await a.elector.release()
        assert (await world.record())["holderIdentity"] == "b"


async def test_a_candidate_that_never_led_sends_nothing_at_its_release():
    async with ballot() as world:
        await world.write()
        a = world.candidate("a")
        waiting = asyncio.create_task(a.elector.acquire())
        await asyncio.sleep(3)
        waiting.cancel()
        before = len(a.requests())
        await a.elector.release()
        assert len(a.requests()) == before
        assert (await world.record())["holderIdentity"] == "other"


async def test_a_conflict_at_the_release_is_followed_by_another_attempt():
    async with ballot() as world:
        a = world.candidate("a")
        await a.elector.acquire()
        a.suffers(Rule(ErrorResponse(409, "Conflict"), LEASE, frozenset({"update"}), times=2))
        await a.elector.release()
        assert (await world.record())["holderIdentity"] == ""


async def test_a_server_that_does_not_answer_holds_a_release_up_for_the_renew_time_at_most():
    async with ballot() as world:
        a = world.candidate("a")
        await a.elector.acquire()
        a.suffers(Rule(DelayedResponse(3600.0), LEASE))
        began = world.loop.time()
        await a.elector.release()
        assert world.loop.time() - began <= TIMING.renew_seconds


async def test_a_stop_in_the_middle_of_a_renewal_still_releases():
    async with ballot() as world:
        a = world.candidate("a")
        await a.elector.acquire()
        a.suffers(Rule(DelayedResponse(4.0), LEASE, frozenset({"update"}), times=1))
        await asyncio.sleep(TIMING.retry_seconds + 1)  # the renewal waits for its answer
        await a.elector.release()
        await asyncio.wait_for(a.elector.lost(), 1)
        assert (await world.record())["holderIdentity"] == ""


async def test_a_leader_renews_without_reading_and_reads_after_a_conflict():
    async with ballot() as world:
        await world.write(holderIdentity="")
        a = world.candidate("a")
        await a.elector.acquire()
        await asyncio.sleep(60)
        assert a.requests().count("get") == 1
        assert 28 <= a.requests().count("update") <= 31
        assert a.sample("leader_election_slowpath_total") == 0
        body = await world.lease()
        body["metadata"]["annotations"] = {"x": "y"}
        await world.observer.replace(LEASES, NAMESPACE, NAME, body)
        await asyncio.sleep(10)
        assert a.requests().count("get") == 2
        assert a.sample("leader_election_slowpath_total") == 1
        assert (await world.lease())["metadata"]["annotations"] == {"x": "y"}
        assert a.elector.is_leader()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"lease_seconds": 0}, "lease_seconds"),
        ({"lease_seconds": 10}, "renew_seconds"),
        ({"renew_seconds": 0.5, "retry_seconds": 0.1}, "renew_seconds"),
        ({"retry_seconds": 0}, "retry_seconds"),
        ({"retry_seconds": 9}, "retry_seconds"),
    ],
)
def test_each_wrong_relation_of_durations_is_named(wrong: dict[str, Any], named: str):
    with pytest.raises(ValueError, match=named):
        ElectionTiming(**wrong)


def test_taking_a_lease_loses_no_field_of_its_record():
    strategy = {"strategy": "OldestEmulationVersion", "preferredHolder": "x"}
    lease = Lease({"metadata": {"name": NAME, "resourceVersion": "3"}, "spec": dict(strategy)})
    body = lease.held_by("a", 15, virtual_wall_at_start())
    assert strategy.items() <= body["spec"].items()
    assert body["metadata"] == {"name": NAME, "resourceVersion": "3"}
    assert Lease(body).holder == "a"
    assert lease.record == strategy, "what was read is not changed"


def virtual_wall_at_start() -> Any:
    from controller.testing.cluster import EPOCH  # noqa: PLC0415  it is what `virtual_wall` begins with

    return EPOCH


async def test_labels_of_others_stay_through_renewals():
    async with ballot() as world:
        a = world.candidate("a")
        await a.elector.acquire()
        body = await world.lease()
        body["metadata"]["labels"] = {"team": "x"}
        await world.observer.replace(LEASES, NAMESPACE, NAME, body)
        await asyncio.sleep(30)
        assert (await world.lease())["metadata"]["labels"] == {"team": "x"}


@pytest.mark.parametrize("verb", ["get", "create", "update"])
async def test_a_refusal_is_kept_as_the_problem_until_an_attempt_succeeds(verb: str):
    async with ballot() as world:
        if verb != "create":
            await world.write(holderIdentity="")
        a = world.candidate("a")
        a.suffers(Rule(ErrorResponse(403, "Forbidden", "no {n}"), LEASE, frozenset({verb})))
        acquiring = asyncio.create_task(a.elector.acquire())
        await asyncio.sleep(30)
        assert not a.elector.is_leader()
        assert "no " in a.elector.problem
        assert len(a.requests()) <= 80, "a refusal is no reason to hurry"
        a.recovers()
        await asyncio.wait_for(acquiring, 3)
        assert a.elector.problem == ""


async def test_a_standby_takes_a_released_lease_within_two_seconds():
    async with ballot() as world:
        a, b = world.candidate("a"), world.candidate("b")
        await a.elector.acquire()
        waiting = asyncio.create_task(b.elector.acquire())
        await asyncio.sleep(31)
        await a.elector.release()
        await asyncio.wait_for(waiting, 2)
        assert b.elector.is_leader()


async def test_a_standby_takes_the_lease_of_a_dead_leader_as_soon_as_it_expires():
    async with ballot() as world:
        a, b = world.candidate("a"), world.candidate("b")
        await a.elector.acquire()
        waiting = asyncio.create_task(b.elector.acquire())
        await asyncio.sleep(31)
        died = world.loop.time()
        await a.elector.aclose()
        await waiting
        assert 13 < world.loop.time() - died < 16.5


async def test_a_leader_that_cannot_renew_stops_before_anybody_may_take_its_lease():
    async with ballot() as world:
        a, b = world.candidate("a"), world.candidate("b")
        await a.elector.acquire()
        waiting = asyncio.create_task(b.elector.acquire())
        await asyncio.sleep(31)
        a.suffers(Rule(Refused(), LEASE))
        await a.elector.lost()
        stopped = world.loop.time()
        assert not a.elector.is_leader()
        await waiting
        assert world.loop.time() - stopped > 2, "a margin for clocks that run at other rates"


@pytest.mark.parametrize(
    "fault",
    [
        LostResponse(),
        DelayedResponse(7.0),
        ErrorResponse(500),
        ErrorResponse(429, "TooManyRequests", retry_after=1),
        ErrorResponse(429, "TooManyRequests", retry_after=60),
    ],
)
async def test_a_renewal_is_tried_again_until_the_time_is_up(fault: Any):
    async with ballot() as world:
        a, b = world.candidate("a"), world.candidate("b")
        await a.elector.acquire()
        asyncio.create_task(b.elector.acquire())  # noqa: RUF006  ended with the ballot
        a.suffers(Rule(fault, LEASE, frozenset({"update"}), skip=3, times=1))
        await asyncio.sleep(60)
        assert a.elector.is_leader()
        assert not b.elector.is_leader()
        assert (await world.record())["leaseTransitions"] == 0


async def test_the_time_left_counts_from_when_the_renewal_was_sent():
    async with ballot() as world:
        a = world.candidate("a")
        a.suffers(Rule(DelayedResponse(4.0), LEASE, frozenset({"create"})))
        await a.elector.acquire()
        assert a.elector.time_left() == pytest.approx(6.0, abs=0.1)


async def test_a_leader_that_sees_another_holder_has_lost_at_once():
    async with ballot() as world:
        a = world.candidate("a")
        await a.elector.acquire()
        await world.change(holderIdentity="b")
        await asyncio.wait_for(a.elector.lost(), TIMING.retry_seconds + 1)
        assert not a.elector.is_leader()
        assert (await world.record())["holderIdentity"] == "b"


async def test_a_lease_that_was_deleted_is_made_anew_by_its_leader():
    async with ballot() as world:
        a = world.candidate("a")
        await a.elector.acquire()
        await world.observer.delete(LEASES, NAMESPACE, NAME)
        await asyncio.sleep(10)
        assert (await world.record())["holderIdentity"] == "a"
        assert a.elector.is_leader()


async def test_a_lease_that_was_deleted_is_made_anew_by_no_other_while_its_leader_may_write():
    async with ballot() as world:
        a, b = world.candidate("a"), world.candidate("b")
        await a.elector.acquire()
        waiting = asyncio.create_task(b.elector.acquire())
        for _ in range(10):
            await asyncio.sleep(2.3)
            await world.observer.delete(LEASES, NAMESPACE, NAME)
            await asyncio.sleep(5)
            assert (await world.record())["holderIdentity"] == "a"
        assert not waiting.done()
        waiting.cancel()


async def test_a_lease_that_was_deleted_after_its_leader_died_is_made_anew_when_it_would_expire():
    async with ballot() as world:
        a, b = world.candidate("a"), world.candidate("b")
        await a.elector.acquire()
        waiting = asyncio.create_task(seconds_until_acquired(b))
        await asyncio.sleep(1.5)
        await a.elector.aclose()
        await world.observer.delete(LEASES, NAMESPACE, NAME)
        assert 14 < await waiting < 15 + 1.2


async def test_a_newcomer_leaves_a_deleted_lease_to_a_leader_that_it_has_never_seen():
    async with ballot() as world:
        a = world.candidate("a")
        await a.elector.acquire()
        for _ in range(10):
            await asyncio.sleep(2.3)
            await world.observer.delete(LEASES, NAMESPACE, NAME)
            newcomer = world.candidate("b")
            waiting = asyncio.create_task(newcomer.elector.acquire())
            await asyncio.sleep(5)
            assert (await world.record())["holderIdentity"] == "a"
            assert not waiting.done()
            await newcomer.elector.aclose()
            await asyncio.gather(waiting, return_exceptions=True)
        assert a.elector.is_leader()


async def test_a_newcomer_without_a_lease_leads_only_when_a_frozen_leader_may_write_no_more():
    async with ballot() as world:
        frozen, newcomer = world.candidate("a"), world.candidate("b")
        await frozen.elector.acquire()
        frozen.suffers(Rule(DelayedRequest(60.0), LEASE))
        await world.observer.delete(LEASES, NAMESPACE, NAME)
        taken = await seconds_until_acquired(newcomer)
        assert not frozen.elector.is_leader()
        assert taken == pytest.approx(TIMING.renew_seconds, abs=0.1)


async def test_a_released_lease_that_was_deleted_is_made_anew_when_nobody_else_can_have_taken_it():
    async with ballot() as world:
        a, b = world.candidate("a"), world.candidate("b")
        await a.elector.acquire()
        waiting = asyncio.create_task(seconds_until_acquired(b))
        await asyncio.sleep(1)
        b.suffers(Rule(ErrorResponse(503), LEASE, frozenset({"update"})))
        await a.elector.release()
        await asyncio.sleep(2)
        await world.observer.delete(LEASES, NAMESPACE, NAME)
        assert 3 + TIMING.renew_seconds < await waiting < 3 + TIMING.renew_seconds + 1.3


@pytest.mark.parametrize("end", ["release", "aclose"])
async def test_a_lease_that_was_taken_and_deleted_between_two_looks_has_no_second_leader(end: str):
    async with ballot() as world:
        a, b, c = world.candidate("a"), world.candidate("b"), world.candidate("c")
        await a.elector.acquire()
        b.suffers(Rule(ErrorResponse(503), LEASE, frozenset({"update"})))
        waiting = asyncio.create_task(b.elector.acquire())
        await asyncio.sleep(3)
        await getattr(a.elector, end)()
        await asyncio.sleep(3)
        b.suffers(Rule(ErrorResponse(503), LEASE))
        await c.elector.acquire()
        await world.observer.delete(LEASES, NAMESPACE, NAME)
        c.suffers(Rule(DelayedRequest(60.0), LEASE))
        b.recovers()
        while c.elector.is_leader():
            assert not b.elector.is_leader()
            await asyncio.sleep(0.1)
        await asyncio.wait_for(waiting, 3)


async def test_only_one_of_many_candidates_ever_leads():
    async with ballot() as world:
        candidates = [world.candidate(f"c{number}") for number in range(8)]
        tasks = [asyncio.create_task(each.elector.acquire()) for each in candidates]
        for turn in range(6):
            for _ in range(40):
                await asyncio.sleep(1)
                assert sum(each.elector.is_leader() for each in candidates) <= 1
            (leader,) = [each for each in candidates if each.elector.is_leader()]
            await (leader.elector.release() if turn % 2 else leader.elector.aclose())
            candidates.remove(leader)
        for task in tasks:
            task.cancel()
