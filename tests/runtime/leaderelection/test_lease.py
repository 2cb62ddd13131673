"""The record in a Lease, its durations, its requests and its metrics: what others read of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from controller.kube.errors import KubeError
from controller.runtime.elector import ElectionTiming, Lease, LeaseLock, election_client, new_lease
from controller.runtime.metrics import ElectionMetrics
from controller.testing.cluster import Cluster, embedded_server, virtual_wall
from controller.testing.faults import DelayedRequest, FaultyTransport, Rule

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


def test_a_lease_that_is_taken_over_counts_a_transition_and_begins_anew():
    assert lease(**HELD).held_by("b", 20, NOW)["spec"] == {
        "holderIdentity": "b",
        "leaseDurationSeconds": 20,
        "acquireTime": TIME,
        "renewTime": TIME,
        "leaseTransitions": 5,
    }


def test_a_renewal_changes_the_time_of_renewal_alone():
    assert lease(**HELD).held_by("a", 15, NOW)["spec"] == {**HELD, "renewTime": TIME}


def test_a_renewal_adds_the_time_of_acquisition_where_it_is_missing():
    assert lease(holderIdentity="a").held_by("a", 15, NOW)["spec"]["acquireTime"] == TIME


def test_a_released_lease_has_no_holder_and_lasts_a_second():
    assert lease(**HELD).released(NOW)["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": TIME,
        "renewTime": TIME,
        "leaseTransitions": 4,
    }


def test_a_record_that_is_missing_or_odd_counts_as_empty():
    for spec in ({}, {"spec": None}, {"spec": {"holderIdentity": 3, "leaseTransitions": "x"}}):
        odd = Lease({"metadata": {}, **spec})
        assert (odd.holder, odd.transitions) == ("", 0)


@pytest.mark.parametrize(
    ("stated", "seconds"), [(1, 1), (40, 40), (0, 15), (-1, 15), ("40", 15), (None, 15)]
)
def test_a_lease_that_states_no_length_has_the_usual_one(stated: Any, seconds: int):
    assert lease(leaseDurationSeconds=stated).duration(15) == seconds
    assert lease().duration(15) == 15


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
    metrics.leads(leads=True)
    metrics.slow_path()
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


async def test_the_lock_is_one_lease_in_one_namespace():
    async with embedded_server() as server:
        client = Cluster(server, virtual_wall).client("a")
        lock, other = LeaseLock(client, "default", "lease"), LeaseLock(client, "default", "other")
        assert str(lock) == "default/lease"
        assert await lock.read() is None
        made = await lock.create(new_lease("default", "lease", "a", 15, NOW))
        assert await lock.read() is not None
        assert await other.read() is None
        again = await lock.replace(made.held_by("a", 20, NOW))
        assert made.body["metadata"].keys() == {"namespace", "name", "resourceVersion"}
        assert again.body == await _read(lock, again)


async def _read(lock: LeaseLock, written: Lease) -> dict[str, Any]:
    """What is stored, without the fields that the server adds."""
    stored = await lock.read()
    assert stored is not None
    kept = written.body["metadata"].keys()
    metadata = {key: stored.body["metadata"][key] for key in kept}
    return {**stored.body, "metadata": metadata}


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
