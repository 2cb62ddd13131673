"""KubeRay's metrics of RayClusters, as they are scraped."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.ray.api import RayCluster
from controller.ray.cluster import ClusterCollector
from controller.runtime.plan import PhaseDuration
from tests.ray.cluster.support import cluster, head, manifest, plan, reads, with_status, workers

IDENTITY = {"name": "example", "namespace": "default", "uid": "uid-of-example"}


def provisioned(status: str, *, origin: str | None = None) -> RayCluster:
    raw = manifest()
    raw["metadata"]["creationTimestamp"] = "2026-08-20T10:00:00Z"
    if origin:
        raw["metadata"]["labels"] = {"ray.io/originated-from-crd": origin}
    condition = {
        "type": "RayClusterProvisioned",
        "status": status,
        "lastTransitionTime": "2026-08-20T10:00:42Z",
    }
    return cluster(raw | {"status": {"conditions": [condition]}})


def registry(*clusters: RayCluster) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(ClusterCollector(lambda: clusters))
    return made


@pytest.mark.parametrize(("status", "label"), [("True", "true"), ("False", "false")])
def test_the_condition_is_a_label(status: str, label: str):
    labels = IDENTITY | {"condition": label}
    made = registry(provisioned(status))
    assert made.get_sample_value("kuberay_cluster_condition_provisioned", labels) == 1


def test_the_duration_counts_from_creation_to_the_first_time_all_pods_were_ready():
    name = "kuberay_cluster_provisioned_duration_seconds"
    assert registry(provisioned("True")).get_sample_value(name, IDENTITY) == 42
    assert registry(provisioned("False")).get_sample_value(name, IDENTITY) is None
    assert registry(cluster()).get_sample_value(name, IDENTITY) is None


@pytest.mark.parametrize(
    ("origin", "owner_kind"), [(None, "None"), ("RayJob", "RayJob"), ("Something", "None")]
)
def test_the_owner_kind_is_what_made_the_cluster(origin: str | None, owner_kind: str):
    made = registry(provisioned("True", origin=origin))
    labels = IDENTITY | {"owner_kind": owner_kind}
    assert made.get_sample_value("kuberay_cluster_info", labels) == 1


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([{"type": "Ready", "status": "False", "reason": "OutOfMemory"}], "OutOfMemory"),
        ([{"type": "Ready", "status": "Unknown"}], ""),
        ([], ""),
    ],
)
def test_a_cluster_that_is_not_ready_says_why(conditions: list[dict[str, str]], reason: str):
    made = registry(cluster(manifest() | {"status": {"conditions": conditions}}))
    labels = IDENTITY | {"reason": reason}
    assert made.get_sample_value("manta_cluster_not_ready", labels) == 1


def test_a_cluster_that_is_ready_has_no_reason_why_not():
    ready = {"type": "Ready", "status": "True", "reason": "AllPodsReady"}
    made = registry(cluster(manifest() | {"status": {"conditions": [ready]}}))
    samples = [each.name for family in made.collect() for each in family.samples]
    assert "kuberay_cluster_info" in samples
    assert "manta_cluster_not_ready" not in samples


def test_a_cluster_that_is_being_upgraded_says_so_with_its_pods_by_group_and_state() -> None:
    raw = manifest()
    condition = {
        "type": "Upgrading",
        "status": "True",
        "reason": "Draining",
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }
    groups = [{"name": "workers", "desired": 3, "updated": 1, "ready": 3, "outdated": 2}, "odd"]
    raw["status"] = {"conditions": [condition], "upgrade": {"groups": groups}}
    made = registry(cluster(raw))
    reason = IDENTITY | {"reason": "Draining"}
    assert made.get_sample_value("manta_upgrade_in_progress", reason) == 1
    assert made.get_sample_value("manta_upgrade_start_time_seconds", IDENTITY) == 60
    for state, count in (("desired", 3), ("updated", 1), ("ready", 3), ("outdated", 2)):
        labels = IDENTITY | {"group": "workers", "state": state}
        assert made.get_sample_value("manta_upgrade_pods", labels) == count


def test_a_cluster_that_nobody_uses_says_since_when_and_how_many_gpus_it_keeps() -> None:
    raw = manifest()
    unused = {
        "type": "Idle",
        "status": "True",
        "reason": "Unused",
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }
    raw["status"] = {"conditions": [unused], "desiredGPU": "4"}
    made = registry(cluster(raw))
    assert made.get_sample_value("manta_cluster_unused_since_seconds", IDENTITY) == 60
    labels = IDENTITY | {"owner_kind": "None"}
    assert made.get_sample_value("manta_cluster_unused_gpus", labels) == 4
    raw["status"]["conditions"] = [unused | {"reason": "Suspended"}]
    made = registry(cluster(raw))
    assert made.get_sample_value("manta_cluster_unused_gpus", labels) is None


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_cluster_that_is_not_being_upgraded_has_no_metric_of_it(status: str) -> None:
    raw = manifest()
    condition = {"type": "Upgrading", "status": status, "reason": "Complete"}
    raw["status"] = {"conditions": [condition]}
    names = {
        sample.name for family in registry(cluster(raw)).collect() for sample in family.samples
    }
    assert not any(name.startswith("manta_upgrade") for name in names)


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


def test_a_cluster_that_was_suspended_is_not_measured():
    provisioned = {"type": "RayClusterProvisioned", "status": "False"}
    times = {"suspended": "2026-08-20T09:00:00Z"}
    assert phases(*pods(), conditions=[provisioned], stateTransitionTimes=times) == ()
    assert phases(*pods(), conditions=[provisioned], stateTransitionTimes={"ready": CREATED})
