"""The RayCluster of a RayService: what is its own, what an edit changes, and lost owners."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from controller.apimachinery.validation import Problem
from controller.kube.objects import OwnerReference
from controller.ray.api import RayCluster
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayservice import RayService
from controller.ray.children.child_cluster import in_place_operations
from controller.ray.service.clusters import cluster_body
from controller.ray.service.facts import collect_facts
from controller.ray.service.observation import ACTIVE, PENDING, read_goal
from controller.ray.service.readiness import first_cause
from controller.ray.service.rollout import GoalCluster
from controller.runtime.plan import Create, Plan
from tests.integration.rayservices import service_manifest
from tests.ray.service.kit import SETTINGS
from tests.ray.service.scenes import NEW, OLD, Scene, edition

VARIABLE = "RAY_external_storage_namespace"


def created(config: dict[str, Any], name: str, **annotations: str) -> dict[str, Any]:
    """The body of a cluster of this RayService."""
    manifest = service_manifest(rayClusterConfig=config)
    meta = {"name": "svc", "namespace": "default", "uid": "u", "annotations": annotations}
    service = msgspec.convert(manifest | {"metadata": meta}, RayService)
    goal = read_goal(service, SETTINGS)
    assert not isinstance(goal, Problem), goal
    return cluster_body(service, goal, name, from_least=False)


def config() -> dict[str, Any]:
    return copy.deepcopy(service_manifest()["spec"]["rayClusterConfig"])


def namespaces(body: dict[str, Any]) -> list[str]:
    """All places that name a Redis namespace."""
    spec = body["spec"]
    env = spec["headGroupSpec"]["template"]["spec"]["containers"][0].get("env", ())
    found = (
        spec.get("gcsFaultToleranceOptions", {}).get("externalStorageNamespace"),
        body["metadata"]["annotations"].get("ray.io/external-storage-namespace"),
        *(each.get("value") for each in env if each["name"] == VARIABLE),
    )
    return [each for each in found if each]


def test_two_clusters_never_share_a_redis_namespace_that_the_options_name():
    chosen = config() | {
        "gcsFaultToleranceOptions": {
            "redisAddress": "redis:6379",
            "externalStorageNamespace": "mine",
        }
    }
    assert [namespaces(created(chosen, name)) for name in ("svc-a", "svc-b")] == [
        ["mine-svc-a"],
        ["mine-svc-b"],
    ]


def test_two_clusters_never_share_a_redis_namespace_that_an_annotation_names():
    given = {"ray.io/ft-enabled": "true", "ray.io/external-storage-namespace": "mine"}
    assert [namespaces(created(config(), name, **given)) for name in ("svc-a", "svc-b")] == [
        ["mine-svc-a"],
        ["mine-svc-b"],
    ]


def test_two_clusters_never_share_a_redis_namespace_that_a_variable_names():
    chosen = config()
    head = chosen["headGroupSpec"]["template"]["spec"]["containers"][0]
    head["env"] = [{"name": VARIABLE, "value": "mine"}, {"name": "OTHER", "value": "kept"}]
    bodies = [created(chosen, name) for name in ("svc-a", "svc-b")]
    assert [namespaces(body) for body in bodies] == [["mine-svc-a"], ["mine-svc-b"]]


def test_two_clusters_never_share_a_redis_namespace_that_a_secret_names():
    chosen = config()
    head = chosen["headGroupSpec"]["template"]["spec"]["containers"][0]
    source = {"secretKeyRef": {"name": "redis", "key": "namespace"}}
    head["env"] = [{"name": VARIABLE, "valueFrom": source}, {"name": "OTHER", "value": "kept"}]
    body = created(chosen, "svc-a")
    assert body["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] == [
        {"name": "MANTA_CHOSEN_STORAGE_NAMESPACE", "valueFrom": source},
        {"name": VARIABLE, "value": "$(MANTA_CHOSEN_STORAGE_NAMESPACE)-svc-a"},
        {"name": "OTHER", "value": "kept"},
    ]
    assert namespaces(created(chosen, "svc-b")) == ["$(MANTA_CHOSEN_STORAGE_NAMESPACE)-svc-b"]


def test_a_variable_without_a_value_names_no_redis_namespace():
    chosen = config()
    head = chosen["headGroupSpec"]["template"]["spec"]["containers"][0]
    head["env"] = [{"name": VARIABLE}]
    assert namespaces(created(chosen, "svc-a")) == []


def operations(present: dict[str, Any], wanted: dict[str, Any]) -> list[tuple[str, str, Any]]:
    meta = {"name": "svc-a", "namespace": "default", "uid": "c", "resourceVersion": "7"}
    cluster = msgspec.convert({"metadata": meta, "spec": present}, RayCluster)
    found = in_place_operations(cluster, wanted)
    if not found:
        return []
    test, *rest = found
    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    return [(each["op"], each["path"], each.get("value")) for each in rest]


def group(spec: dict[str, Any]) -> dict[str, Any]:
    return spec["workerGroupSpecs"][0]


@pytest.mark.parametrize("name", [None, 7, ["odd"], {"odd": 1}])
def test_a_group_of_the_running_cluster_without_a_name_is_left_alone(name: Any):
    present, wanted = config(), config()
    present["workerGroupSpecs"].append(group(config()) | {"groupName": name})
    group(wanted)["replicas"] = 7
    assert operations(present, wanted) == [("add", "/spec/workerGroupSpecs/0/replicas", 7)]


@pytest.mark.parametrize("groups", [7, "odd", {"groupName": "odd"}])
def test_groups_of_the_running_cluster_that_are_no_list_are_put_in_place(groups: Any):
    wanted = config()
    assert operations(config() | {"workerGroupSpecs": groups}, wanted) == [
        ("add", "/spec/workerGroupSpecs", wanted["workerGroupSpecs"])
    ]


THEIRS = OwnerReference(api_version="v1", kind="ConfigMap", name="x", uid="u", controller=True)


def disown(scene: Scene, role: str, *owners: OwnerReference, labelled: bool = True) -> None:
    cluster = scene.clusters[role]
    meta = msgspec.structs.replace(cluster.metadata, owner_references=owners)
    if not labelled:
        meta = msgspec.structs.replace(meta, labels={})
    scene.clusters[role] = msgspec.structs.replace(cluster, metadata=meta)


def created_or_decided(plan: Plan) -> bool:
    writes = [write for stage in plan.stages for write in stage]
    return plan.commit is not None or any(
        isinstance(write, Create) and write.target.resource is RAYCLUSTERS for write in writes
    )


@pytest.mark.parametrize("wanted", [OLD, NEW])
@pytest.mark.parametrize("role", [ACTIVE, PENDING])
@pytest.mark.parametrize(("owners", "labelled"), [((), True), ((), False), ((THEIRS,), True)])
def test_no_cluster_takes_the_place_of_one_without_its_owner_reference(
    wanted: str, role: str, owners: tuple[OwnerReference, ...], *, labelled: bool
):
    scene = Scene(edition(wanted))
    scene.has(role, edition(OLD))
    disown(scene, role, *owners, labelled=labelled)
    assert not created_or_decided(scene.plan())
    cause = first_cause(scene.observe(), ())
    name = scene.clusters[role].metadata.name
    assert cause.message == (
        f"RayCluster {name} no longer belongs to this RayService, because another client took its "
        "owner reference away; stop that client and delete the cluster"
    )


def test_a_cluster_that_others_created_under_a_name_of_ours_is_replaced():
    scene = Scene(edition(OLD))
    scene.has(PENDING, edition(OLD))
    disown(scene, PENDING, THEIRS, labelled=False)
    assert created_or_decided(scene.plan())


def test_an_upgrade_goes_on_although_the_active_cluster_lost_its_owner_reference():
    scene = Scene(edition(NEW))
    scene.has(ACTIVE, edition(OLD))
    scene.has(PENDING, edition(NEW))
    disown(scene, ACTIVE)
    facts = collect_facts(scene.observe())
    assert (facts.goal, facts.active.exists) == (GoalCluster.PENDING, True)
