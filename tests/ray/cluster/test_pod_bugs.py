"""What went wrong with the making and counting of pods in other operators, as single rules."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.ray.api.raycluster import LARGEST_INT32
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import DesiredCluster
from tests.ray.cluster.support import cluster, head, manifest, plan, reads, workers, writes
from tests.ray.pods.golden_pods import built_pods

MAX_UINT16_HOSTS = 65_535


@pytest.mark.parametrize("hosts", [None, "absent", 0, -1, 1])
def test_without_a_number_of_hosts_a_replica_is_one_pod_and_no_worker_is_deleted(hosts: Any):
    raw = manifest()
    (group,) = raw["spec"]["workerGroupSpecs"]
    group.pop("numOfHosts", None)
    if hosts != "absent":
        group["numOfHosts"] = hosts
    present = [head(), *workers(group["replicas"])]
    made = plan(reads(cluster(raw), *present))
    assert [write for write in writes(made) if "Pod" in write] == []
    assert made.status is not None
    assert made.status.wanted["desiredWorkerReplicas"] == group["replicas"]


def test_the_pods_of_a_group_show_nothing_of_another_group():
    raw = manifest()
    (group,) = raw["spec"]["workerGroupSpecs"]
    twin = group | {"groupName": "twin", "rayStartParams": {"num-cpus": "7"}}
    raw["spec"]["workerGroupSpecs"] = [group, twin]  # one template object for both
    alone = copy.deepcopy(raw)
    alone["spec"]["workerGroupSpecs"] = [copy.deepcopy(twin)]
    design = RayClusterKind()._desired(cluster(raw))
    assert isinstance(design, DesiredCluster)
    templates = copy.deepcopy([each.template for each in design.spec.worker_group_specs])
    bodies = [design.builder.workers(each)("a", None) for each in design.spec.worker_group_specs]
    assert [each.template for each in design.spec.worker_group_specs] == templates
    lone = RayClusterKind()._desired(cluster(alone))
    assert isinstance(lone, DesiredCluster)
    assert bodies[1] == lone.builder.workers(lone.spec.worker_group_specs[0])("a", None)
    assert "num-cpus=7" not in str(bodies[0])


def test_counts_beyond_32_bits_neither_overflow_nor_are_refused():
    (group,) = manifest()["spec"]["workerGroupSpecs"]
    huge = {
        "replicas": LARGEST_INT32,
        "minReplicas": LARGEST_INT32,
        "maxReplicas": LARGEST_INT32,
        "numOfHosts": MAX_UINT16_HOSTS,
    }
    groups = [group | huge | {"groupName": name} for name in ("a", "b")]
    made = plan(reads(cluster(workerGroupSpecs=groups), head()))
    assert made.status is not None
    for count in ("desired", "min", "max"):
        assert made.status.wanted[f"{count}WorkerReplicas"] == LARGEST_INT32
    assert any("create Pod" in write for write in writes(made))
    assert len(writes(made)) < 1000, "one plan is one batch"


@pytest.mark.parametrize(
    "asked",
    [
        {"spec": {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}},
        {"spec": {"gcsFaultToleranceOptions": {"backend": "rocksdb"}}},
        {"metadata": {"annotations": {"ray.io/ft-enabled": "TRUE"}}},
    ],
    ids=["redis", "rocksdb", "legacy"],
)
def test_workers_outwait_a_head_that_comes_back(asked: dict[str, Any]):
    name = "RAY_gcs_rpc_server_reconnect_timeout_s"

    def timeouts(raw: dict[str, Any]) -> list[list[str]]:
        return [
            [e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == name]
            for pod in built_pods(raw)
        ]

    raw = manifest()
    assert timeouts(raw) == [[], []]
    for part, fields in asked.items():
        raw[part] |= fields
    assert timeouts(raw) == [[], ["600"]]
    ray = raw["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    ray["env"] = [{"name": name, "value": "30"}]
    assert timeouts(raw) == [[], ["30"]], "the user's own wins"
