"""How long provisioning took: measured once, when all pods are ready for the first time."""

from __future__ import annotations

from typing import Any

import pytest

from controller.runtime.plan import PhaseDuration
from tests.ray.cluster.support import cluster, head, manifest, plan, reads, with_status, workers

CREATED = "2026-08-20T09:58:00Z"
LAST = "2026-08-20T09:58:30Z"


def phases(*pods: Any, created: str | None = CREATED, **status: Any) -> tuple[PhaseDuration, ...]:
    raw = manifest()
    raw["metadata"]["creationTimestamp"] = created
    made = plan(reads(with_status(cluster(raw), status), *pods), seconds=15).status
    assert made is not None
    return made.phases


def pods(**more: Any) -> list[Any]:
    return [head(created="2026-08-20T09:58:02Z"), *workers(2, created=LAST, **more)]


def test_the_phases_end_with_the_last_pod_and_with_the_moment_at_which_all_are_ready():
    assert phases(*pods()) == (
        PhaseDuration("pods_created", 30.0),
        PhaseDuration("pods_ready", 105.0),
    )


def test_nothing_is_measured_before_all_pods_are_ready():
    assert phases(*pods(ready=False)) == ()


def test_nothing_is_measured_a_second_time():
    provisioned = {"type": "RayClusterProvisioned", "status": "True"}
    assert phases(*pods(), conditions=[provisioned]) == ()


def test_a_cluster_that_was_suspended_is_not_measured():
    provisioned = {"type": "RayClusterProvisioned", "status": "False"}
    times = {"suspended": "2026-08-20T09:00:00Z"}
    assert phases(*pods(), conditions=[provisioned], stateTransitionTimes=times) == ()
    assert phases(*pods(), conditions=[provisioned], stateTransitionTimes={"ready": CREATED})


@pytest.mark.parametrize("created", [None, "yesterday"])
def test_without_a_time_of_creation_nothing_is_measured(created: str | None):
    assert phases(*pods(), created=created) == ()


def test_a_clock_that_is_behind_the_servers_gives_no_negative_time():
    late = [head(created="2026-08-20T11:00:00Z"), *workers(2, created=LAST)]
    assert phases(*late)[1].seconds == 0.0
