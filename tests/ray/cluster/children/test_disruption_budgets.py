"""Disruption budgets as objects: their numbers, and how long they outlast a silence of Ray."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import rfc3339
from controller.kube.resources import DISRUPTION_BUDGETS
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.children.child_cluster import child_cluster
from controller.ray.cluster import RayClusterKind
from controller.runtime.plan import Create, Delete, MergePatch
from tests.ray.cluster.support import (
    NOW,
    cluster,
    head,
    manifest,
    meta,
    plan,
    reads,
    with_children,
    with_status,
    workers,
)

Json = dict[str, Any]

MULTI_HOST: Json = {"numOfHosts": 4, "replicas": 2, "minReplicas": 2, "maxReplicas": 2}


def sample(budgets: Json | None, **group: Any) -> Json:
    raw = manifest()
    raw["spec"]["disruptionBudgets"] = budgets
    raw["spec"]["workerGroupSpecs"][0] |= group
    return raw


def made(raw: Json) -> dict[str, Json]:
    """The bodies of the budgets that a cluster gets which is taken to be in use, by name."""
    kept = reads(cluster(raw), head(), *workers(2), served={DISRUPTION_BUDGETS})
    found = plan(with_children(kept), RayClusterKind(assumes_ray=True)).independent
    return {each.target.name: dict(each.body) for each in found if isinstance(each, Create)}


def test_the_objects_of_a_cluster_with_replicas_of_several_hosts():
    found = made(sample({}, **MULTI_HOST))
    owner = found["example-head"]["metadata"].pop("ownerReferences")
    assert [each["kind"] for each in owner] == ["RayCluster"]
    of_all = {
        "ray.io/cluster": "example",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    assert found["example-head"] == {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "example-head", "namespace": "default", "labels": of_all},
        "spec": {
            "minAvailable": 1,
            "selector": {"matchLabels": {"ray.io/cluster": "example", "ray.io/node-type": "head"}},
        },
    }
    assert found["example-workers-workers"]["spec"] == {
        "minAvailable": 8,
        "selector": {
            "matchLabels": {
                "ray.io/cluster": "example",
                "ray.io/node-type": "worker",
                "ray.io/group": "workers",
            }
        },
    }, "one host less ends its replica"


@pytest.mark.parametrize(
    ("percent", "replicas", "number"),
    [(0, 3, 3), (1, 3, 2), (25, 4, 3), (25, 5, 3), (50, 1, None), (100, 9, None), (10, 0, None)],
)
def test_a_share_of_workers_is_a_number_rounded_so_that_a_drain_goes_on(
    percent: int, replicas: int, number: int | None
):
    bounds = {"replicas": replicas, "minReplicas": 0, "maxReplicas": 9}
    found = made(sample({"workersMaxUnavailablePercent": percent}, **bounds))
    spec = found.get("example-workers-workers", {}).get("spec")
    if number is None:
        assert spec is None
    else:
        assert spec is not None
        assert spec["minAvailable"] == number
        assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow", "one that never starts may go"


def test_a_cluster_that_does_not_ask_gets_none():
    assert made(sample(None, **MULTI_HOST)) == {}


@pytest.mark.parametrize(
    ("minutes", "ready", "kept"), [(4, "False", True), (6, "False", False), (600, "True", True)]
)
def test_without_an_answer_a_budget_stays_as_long_as_a_head_is_ready(
    minutes: int, ready: str, kept: bool
):
    since = rfc3339(NOW - timedelta(minutes=minutes))
    state = {"type": "HeadPodReady", "status": ready, "lastTransitionTime": since}
    obj = with_status(cluster(sample({})), {"conditions": [state]})
    body = made(sample({}))["example-head"]
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    kept_in = with_children(reads(obj, head(), *workers(2))).add(
        DISRUPTION_BUDGETS, msgspec.convert(body, DISRUPTION_BUDGETS.view)
    )
    found = [each for each in plan(kept_in).independent if isinstance(each, Delete)]
    assert bool(found) is not kept


def test_what_runs_is_not_left_unprotected_by_an_edit_of_the_object():
    body = made(sample({}))["example-head"]
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    body["spec"]["selector"]["matchLabels"]["more"] = "narrow"
    kept = with_children(reads(cluster(sample({})), head(), *workers(2))).add(
        DISRUPTION_BUDGETS, msgspec.convert(body, DISRUPTION_BUDGETS.view)
    )
    (patch,) = (
        each
        for each in plan(kept).independent
        if isinstance(each, MergePatch) and each.target.resource is DISRUPTION_BUDGETS
    )
    assert patch.patch == {"spec": {"selector": {"matchLabels": {"more": None}}}}


def test_a_rayjob_or_rayservice_gives_the_annotation_to_its_clusters():
    text = '{"workersMaxUnavailablePercent": 10}'
    owner = meta("job", uid="1", annotations={"manta.dev/disruption-budgets": text})
    made = child_cluster(RAYCLUSTERS, owner, "job-1", {})
    assert made["metadata"]["annotations"] == {"manta.dev/disruption-budgets": text}
