"""What Ray's autoscaler may rely on: it decides who goes, and its fields are its own."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS, RayCluster
from controller.ray.cluster import RayClusterKind
from controller.ray.settings import RaySettings
from controller.runtime.plan import Create, Delete, MergePatch, Plan
from tests.ray.cluster.support import cluster, head, manifest, plan, pod, workers
from tests.ray.cluster.test_plan import scaled, settled, verbs

AUTOSCALED = {"enableInTreeAutoscaling": True}


def named(obj: RayCluster, *pods: Pod, **more: Any) -> list[str]:
    return sorted(verbs(plan(settled(obj, *pods, **more)), Delete))


def test_a_list_that_is_not_cleared_yet_deletes_nothing_twice():
    pods = workers(3)
    gone = pods[0].metadata.name
    obj = scaled(2, gone, **AUTOSCALED)
    going = pod(gone, terminating=True)
    assert named(obj, head(), going, *pods[1:]) == []
    assert named(obj, head(), *pods[1:]) == []


@pytest.mark.parametrize("condition", ["PodResizeInProgress", "PodResizePending"])
def test_a_worker_that_the_autoscaler_resizes_in_place_is_left_as_it_is(condition: str):
    raw = manifest()
    raw["metadata"]["annotations"] = {"ray.io/ippr": '{"groups": {"workers": {"max-cpu": "4"}}}'}
    resized = workers(
        2,
        annotations={"ray.io/ippr-status": '{"resizing-at": 1790000000}'},
        conditions=[{"type": condition, "status": "True", "message": "Node has too little CPU"}],
    )
    made = plan(settled(cluster(raw, **AUTOSCALED), head(), *resized))
    assert not [each for stage in made.stages for each in stage if each.target.resource is PODS]


@pytest.mark.parametrize(
    ("environment", "deleted"),
    [
        ({}, 0),
        ({"ENABLE_RANDOM_POD_DELETE": "false"}, 0),
        ({"ENABLE_RANDOM_POD_DELETE": "TRUE"}, 3),
    ],
)
def test_surplus_workers_go_unnamed_only_if_an_administrator_allows_it(
    environment: dict[str, str], deleted: int
):
    kind = RayClusterKind(RaySettings.from_environment(environment))
    made = plan(settled(scaled(1, **AUTOSCALED), head(), *workers(4)), kind)
    assert len(verbs(made, Delete)) == deleted


def test_a_suspended_group_under_autoscaling_is_not_valid_and_keeps_its_pods():
    raw = manifest()
    raw["spec"] |= AUTOSCALED
    raw["spec"]["workerGroupSpecs"][0]["suspend"] = True
    made = plan(settled(cluster(raw), head(), *workers(2)))
    assert [event.reason for event in made.events] == ["InvalidRayClusterSpec"]
    assert made.stages == ()


@pytest.mark.parametrize(
    "pods",
    [(), (head(),), (head(), *workers(5)), (head(phase="Failed"), *workers(1)), (*workers(2),)],
    ids=["nothing", "head", "surplus", "failed head", "no head"],
)
@pytest.mark.parametrize("autoscaling", [True, False])
@pytest.mark.parametrize("suspend", [True, False])
def test_worker_groups_are_never_written(pods: tuple[Pod, ...], autoscaling: bool, suspend: bool):
    obj = scaled(
        3, "example-workers-worker-00000000", enableInTreeAutoscaling=autoscaling, suspend=suspend
    )
    for made in (plan(settled(obj, *pods)), plan(settled(obj, *pods, listed=True))):
        assert not any(writes_specification(write) for write in all_writes(made))


def all_writes(made: Plan) -> list[Any]:
    return [*(each for stage in made.stages for each in stage), *filter(None, [made.commit])]


def writes_specification(write: Any) -> bool:
    if write.target.resource is not RAYCLUSTERS:
        return False
    return not isinstance(write, MergePatch) or "spec" in write.patch


def test_what_the_autoscaler_finds_pods_by_is_on_every_worker():
    made = plan(settled(scaled(2, **AUTOSCALED), head()))
    creates = [write for write in all_writes(made) if isinstance(write, Create)]
    bodies = [write.body for write in creates if write.target.scope == "worker/workers"]
    assert len(bodies) == 2
    for body in bodies:
        labels = body["metadata"]["labels"]
        assert (labels["ray.io/cluster"], labels["ray.io/group"]) == ("example", "workers")
        env = {each["name"]: each.get("valueFrom") for each in ray_container(body)["env"]}
        assert env["RAY_CLOUD_INSTANCE_ID"] == field_ref("metadata.name")
        assert env["RAY_NODE_TYPE_NAME"] == field_ref("metadata.labels['ray.io/group']")


def ray_container(body: Any) -> Any:
    return body["spec"]["containers"][0]


def field_ref(path: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": path}}
