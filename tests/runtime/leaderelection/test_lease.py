"""The record in a Lease, its requests and metrics; the fence that writes and events pass."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from controller.kube.errors import KubeError, NotSent, OutcomeUnknown
from controller.kube.objects import ObjectMeta
from controller.kube.resources import CONFIG_MAPS
from controller.kube.transport import Request
from controller.runtime.debug import Leader
from controller.runtime.election import (
    AlwaysLeader,
    FencedTransport,
    ThreadedElection,
    while_leading,
)
from controller.runtime.elector import ElectionMetrics, Lease, LeaseLock, election_client, new_lease
from controller.runtime.failed_groups import WriteOutcome
from controller.runtime.plan import Event
from controller.runtime.recorder import Recorder
from controller.runtime.settings import ElectionTiming
from controller.runtime.writer import Writer
from controller.testing.cluster import Cluster, embedded_server, virtual_wall
from controller.testing.faults import DelayedRequest, FaultyTransport, Rule
from tests.runtime.fences import SwitchableFence
from tests.runtime.kit import OWNER, Book, ScriptedClient, create

EARLIER = "2025-12-31T23:00:00.000000Z"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIME = "2026-01-01T00:00:00.000000Z"
SLOW_PATH = "Renewals that had to read the lease first, because another client had written it"
HELD = {
    "holderIdentity": "a",
    "leaseDurationSeconds": 15,
    "acquireTime": EARLIER,
    "renewTime": EARLIER,
    "leaseTransitions": 4,
}


def lease(**record: Any) -> Lease:
    return Lease({"metadata": {"name": "lease"}, "spec": record})


def test_a_new_lease_has_changed_hands_never():
    assert new_lease("default", "lease", "a", 15, NOW) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "default", "name": "lease"},
        "spec": {**HELD, "acquireTime": TIME, "renewTime": TIME, "leaseTransitions": 0},
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lease_seconds": 0}, "lease_seconds must be at least 1"),
        ({"renew_seconds": 0.9}, "renew_seconds must be at least 1"),
        ({"retry_seconds": 0}, "retry_seconds must be more than 0"),
        ({"lease_seconds": 10}, "lease_seconds must be more than renew_seconds"),
        (
            {"renew_seconds": 6.0, "retry_seconds": 5.0},
            "renew_seconds must be more than 1.2 times retry_seconds",
        ),
    ],
)
def test_a_wrong_duration_is_explained(wrong: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=f"^{message}$"):
        ElectionTiming(**wrong)


def test_the_shortest_durations_are_allowed():
    assert ElectionTiming(lease_seconds=2, renew_seconds=1.0, retry_seconds=0.5)
    with pytest.raises(ValueError, match=r"^lease_seconds must be more than renew_seconds$"):
        ElectionTiming(lease_seconds=1, renew_seconds=1.0, retry_seconds=0.5)


def test_the_metrics_have_upstreams_names():
    registry = CollectorRegistry()
    metrics = ElectionMetrics(registry, "manta")
    metrics.leads.set(1)
    metrics.slow_path.inc()
    lines = [
        line for line in generate_latest(registry).decode().splitlines() if "_created" not in line
    ]
    assert lines == [
        "# HELP leader_election_master_status Whether this process holds the lease: 1, or 0",
        "# TYPE leader_election_master_status gauge",
        'leader_election_master_status{name="manta"} 1.0',
        f"# HELP leader_election_slowpath_total {SLOW_PATH}",
        "# TYPE leader_election_slowpath_total counter",
        'leader_election_slowpath_total{name="manta"} 1.0',
    ]


@pytest.mark.parametrize(("renew_seconds", "seconds"), [(10.0, 5), (5.0, 2.5), (1.0, 1)])
async def test_a_request_without_an_answer_takes_half_of_the_time_for_a_renewal(
    renew_seconds: float, seconds: float
):
    timing = ElectionTiming(renew_seconds=renew_seconds, retry_seconds=0.5)
    async with embedded_server() as server:
        world = Cluster(server, virtual_wall)
        silent = Rule(DelayedRequest(1000.0))
        transport = FaultyTransport(world.transport, [silent], clock=world.loop)
        client = election_client(transport, timing, user_agent="a", clock=world.loop)
        began = world.loop.time()
        with pytest.raises(KubeError):
            await LeaseLock(client, "default", "lease").read()
        assert world.loop.time() - began == pytest.approx(seconds)


async def test_a_write_ends_before_the_lease_may_and_its_outcome_is_unknown():
    book, client = Book(), ScriptedClient(seconds=30.0)
    loop = asyncio.get_running_loop()
    writer = Writer(client, book.expectations, fence=SwitchableFence(left=4.0))
    result = await writer.perform(OWNER, create("a"))
    assert loop.time() == pytest.approx(4.0)
    assert result.outcome is WriteOutcome.UNKNOWN
    assert book.expectations.statistics().unknown == 1


async def test_no_event_is_sent_while_this_process_does_not_lead():
    client, fence = ScriptedClient(), SwitchableFence(leads=False)
    loop = asyncio.get_running_loop()
    recorder = Recorder(
        client,
        instance="pod-0",
        clock=loop,
        wall=lambda: NOW,
        rng=random.Random(1),
        fence=fence,
    )
    task = asyncio.create_task(recorder.run())
    meta = ObjectMeta(name="a", namespace="default", uid="uid-a")
    recorder.record(CONFIG_MAPS, meta, Event("Normal", "Because", "Reconcile", "it happened"))
    await asyncio.sleep(60)
    assert client.calls == []
    fence.leads = True
    await asyncio.sleep(60)
    assert len(client.verbs("create")) == 1
    recorder.stop()
    await task


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_process_that_wakes_up_after_its_lease_sends_nothing_that_changes(method: str):
    async with embedded_server() as server:
        fence = SwitchableFence(leads=False)
        transport = FencedTransport(server, fence)
        with pytest.raises(NotSent):
            await transport.request(Request(method, "/api/v1/namespaces", body=b"{}"))
        status, _, chunks = await transport.request(Request("GET", "/api/v1/namespaces"))
        await chunks.aclose()
        assert status == 200
        fence.leads = True
        status, _, chunks = await transport.request(
            Request(method, "/api/v1/namespaces", body=b"{}")
        )
        await chunks.aclose()
        assert status != 200, "the server itself has refused it"


async def test_a_time_out_of_the_request_itself_is_not_blamed_on_the_lease():
    with pytest.raises(TimeoutError):
        async with while_leading(SwitchableFence(left=10.0)), asyncio.timeout(1.0):
            await asyncio.sleep(5)


async def test_a_closed_fence_lets_nothing_begin():
    with pytest.raises(NotSent, match=r"^this process does not lead$"):
        async with while_leading(SwitchableFence(leads=False)):
            pytest.fail("began")


async def test_the_limit_names_the_lease():
    message = r"^no answer within the 2\.35 s for which the lease holds$"
    with pytest.raises(OutcomeUnknown, match=message):
        async with while_leading(SwitchableFence(left=2.3456)):
            await asyncio.sleep(5)


class Sender:
    """A transport that notes what it is to send."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    async def request(self, request: Any) -> Any:
        self.sent.append(request)


async def test_what_is_sent_is_sent_as_it_is():
    sender, fence = Sender(), SwitchableFence()
    transport = FencedTransport(sender, fence)
    writes = [Request(each, "/a", {"q": "1"}, {"h": "2"}, b"{}") for each in ("POST", "DELETE")]
    reads = [Request(each, "/a") for each in ("GET", "HEAD", "OPTIONS")]
    for request in writes:
        await transport.request(request)
    fence.leads = False
    for request in reads:
        await transport.request(request)
    message = "^POST /a: not sent, because this process does not lead$"
    with pytest.raises(NotSent, match=message):
        await transport.request(writes[0])
    assert sender.sent == [*writes, *reads]


def test_without_a_lease_the_process_leads_for_ever():
    assert AlwaysLeader().snapshot() == Leader(leads=True, remaining=None)


def test_without_a_candidate_no_process_leads():
    candidate: Any = None  # made only when the election begins
    found = ThreadedElection(candidate).snapshot()
    assert found == Leader(leads=False, remaining=0.0)
    assert found.leads is False


def candidate_with(**facts: Any) -> ThreadedElection:
    candidate: Any = None
    election = ThreadedElection(candidate)
    usual = {"is_leader": lambda: True, "time_left": lambda: 9.8765, "holder": "a", "problem": ""}
    election._elector = SimpleNamespace(**usual | facts)  # type: ignore[assignment]
    return election


def test_the_candidate_says_who_leads_for_how_long_and_what_is_wrong():
    assert candidate_with(problem="refused").snapshot() == Leader(True, 9.877, "a", "refused")


def test_a_lease_is_shown_shortly_and_without_what_its_error_quotes():
    shown = candidate_with(holder="x" * 1_000_000, problem='not "hunter"').snapshot()
    assert (len(shown.holder), shown.problem) == (253, 'not ""')
