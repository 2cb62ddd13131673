"""Which changes ask for another cluster, and the Serve config that is stored on a cluster."""

from __future__ import annotations

import base64
import copy
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.api.rayservice import UpgradeType
from controller.ray.service.identity import (
    Origin,
    SpecChange,
    SpecIdentity,
    load,
    store,
)
from controller.ray.service.rollout import (
    ClusterFacts,
    GoalCluster,
    RolloutFacts,
    keeps_outdated_cluster,
)
from controller.runtime.plan import MergePatch
from tests.integration.rayservices import serve_config
from tests.ray.service.scenes import ACTIVE, OLD, Scene, edition

Spec = dict[str, Any]


def template(image: str) -> Spec:
    return {"spec": {"containers": [{"name": "ray", "image": image}]}}


SPEC: Spec = {
    "rayVersion": "2.60.0",
    "headGroupSpec": {"template": template("ray:1")},
    "workerGroupSpecs": [
        {"groupName": "a", "replicas": 1, "minReplicas": 1, "template": template("ray:1")},
        {"groupName": "b", "replicas": 2, "template": template("ray:1")},
    ],
}


def change(edit: Callable[[Spec], object]) -> SpecChange:
    edited = copy.deepcopy(SPEC)
    edit(edited)
    return SpecIdentity.of(SPEC).change_to(SpecIdentity.of(edited))


def group(spec: Spec, position: int = 0) -> Spec:
    return spec["workerGroupSpecs"][position]


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: None,
        lambda spec: group(spec).update(replicas=7),
        lambda spec: group(spec).update(minReplicas=0, maxReplicas=9),
        lambda spec: group(spec).update(scaleStrategy={"workersToDelete": ["x"]}),
        lambda spec: group(spec).update(suspend=True),
        lambda spec: spec.update(suspend=True),
        lambda spec: spec.update(managedBy="ray.io/kuberay-operator"),
        lambda spec: group(spec)["template"]["spec"].update(tolerations=[{"key": "gpu"}]),
        lambda spec: spec["headGroupSpec"]["template"]["spec"].update(schedulingGates=[]),
        lambda spec: group(spec).update(numOfHosts=1),  # the default
        lambda spec: group(spec)["template"]["spec"].update(restartPolicy="Always"),
        lambda spec: spec.update(
            workerGroupSpecs=[dict(reversed(g.items())) for g in spec["workerGroupSpecs"]]
        ),
    ],
    ids=[
        "nothing",
        "replicas",
        "limits",
        "scale-strategy",
        "suspended-group",
        "suspended-cluster",
        "managed-by",
        "tolerations",
        "scheduling-gates",
        "one-host",
        "restart-policy",
        "order-of-keys",
    ],
)
def test_what_may_change_in_a_running_cluster_asks_for_no_other(edit: Callable[[Spec], object]):
    assert change(edit) is SpecChange.NONE


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: spec.update(rayVersion="2.61.0"),
        lambda spec: group(spec)["template"]["spec"]["containers"][0].update(image="ray:2"),
        lambda spec: spec["headGroupSpec"].update(rayStartParams={"num-cpus": "0"}),
        lambda spec: group(spec).update(numOfHosts=2),
        lambda spec: spec["workerGroupSpecs"].pop(),
        lambda spec: group(spec).update(groupName="c"),
        lambda spec: spec.update(enableInTreeAutoscaling=True),
    ],
    ids=[
        "ray-version",
        "image",
        "head-parameters",
        "hosts",
        "removed-group",
        "renamed-group",
        "autoscaling",
    ],
)
def test_everything_else_asks_for_another_cluster(edit: Callable[[Spec], object]):
    assert change(edit) is SpecChange.NEW_CLUSTER


@pytest.mark.parametrize("groups", [None, True, 1e300, "odd", {"a": 1}])
def test_what_is_no_list_of_groups_counts_as_none(groups: Any):
    assert SpecIdentity.of(SPEC | {"workerGroupSpecs": groups}).groups == ()


def test_the_order_of_groups_has_no_meaning():
    assert change(lambda spec: spec["workerGroupSpecs"].reverse()) is SpecChange.NONE


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_new_name_is_an_added_group_wherever_it_stands(position: int):
    added = {"groupName": "c", "template": template("ray:2")}

    def insert(spec: Spec) -> None:
        spec["workerGroupSpecs"].reverse()
        spec["workerGroupSpecs"].insert(position, added)

    assert change(insert) is SpecChange.ADDED_GROUPS


def test_a_path_in_another_spelling_asks_for_no_other_cluster():
    spec, edited = copy.deepcopy(SPEC), copy.deepcopy(SPEC)
    for each, path in ((spec, "/data/"), (edited, "/data")):
        mount = [{"name": "v", "mountPath": path}]
        each["headGroupSpec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mount
    identity = SpecIdentity.of(spec)
    assert identity.change_to(SpecIdentity.of(edited)) is SpecChange.NONE


def test_an_identity_is_read_as_it_was_written():
    identity = SpecIdentity.of(SPEC)
    assert SpecIdentity.parse(str(identity)) == identity


@pytest.mark.parametrize("generation", [7, None])
def test_an_origin_is_read_as_it_was_written(generation: int | None):
    origin = Origin(SpecIdentity.of(SPEC), generation)
    assert Origin.parse(str(origin)) == origin


@pytest.mark.parametrize("text", ["", "@", "@x", f"@{'1' * 5000}", "@\u00b2"])
def test_anything_else_is_no_origin(text: str):
    assert Origin.parse(text) == Origin(None)


@pytest.mark.parametrize(
    "text", ["", "x", "2." + "a" * 16, "3." + "a" * 16 + ".", "1234", "0" * 15 + "/"]
)
def test_anything_else_is_no_identity(text: str):
    assert SpecIdentity.parse(text) is None


CONFIG = {"applications": [{"name": "hello", "import_path": "hello:app"}]}


def test_what_is_stored_is_loaded_with_the_same_hash():
    annotations = store(CONFIG)
    loaded = load(annotations)
    assert loaded is not None
    assert loaded.body == CONFIG
    assert loaded.hash == annotations[labels.SERVE_CONFIG_HASH]
    assert list(loaded.applications) == ["hello"]


def test_the_order_of_keys_makes_no_difference():
    other = {"applications": [dict(reversed(CONFIG["applications"][0].items()))]}
    assert store(other) == store(CONFIG)


def test_a_request_adds_the_capacity_and_nothing_else():
    loaded = load(store(CONFIG))
    assert loaded is not None
    assert json.loads(loaded.request(None)) == CONFIG
    for capacity in (0, 20, 40, 60, 80, 100):
        assert json.loads(loaded.request(capacity)) == {**CONFIG, "target_capacity": capacity}


def test_a_cluster_without_the_annotation_has_none():
    assert load(None) is None
    assert load({"other": "x"}) is None


def packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data)).decode()


@pytest.mark.parametrize(
    "value",
    [
        "",
        "?",
        "AAAA",
        packed(b""),
        packed(b"[]"),
        packed(b"\xff"),
        packed(b"[" * 100_000),
        packed(b'{"a": ' * 100_000 + b"1" + b"}" * 100_000),
        packed(b'{"applications": 5}'),
        packed(b'{"applications": ["hello"]}'),
        packed(b'{"applications": [{"name": 1}]}'),
    ],
    ids=range(11),
)
def test_an_annotation_of_another_writer_is_said_to_be_unreadable(value: str):
    assert labels.SERVE_CONFIG in str(load({labels.SERVE_CONFIG: value}))


def test_a_bomb_is_not_unpacked():
    assert "cannot be read" in str(load({labels.SERVE_CONFIG: packed(b" " * (64 << 20))}))


def test_another_config_is_no_longer_recorded_as_accepted():
    scene = Scene(edition(OLD, serve_config("later")))
    cluster = scene.has(ACTIVE, edition(OLD, serve_config("hi")))
    assert cluster.metadata.annotations is not None
    cluster.metadata.annotations[labels.SERVE_CONFIG_APPLIED] = "hash of the former"
    [written] = [
        write.patch["metadata"]["annotations"]
        for stage in scene.plan().stages
        for write in stage
        if isinstance(write, MergePatch) and write.target.resource is RAYCLUSTERS
    ]
    assert labels.SERVE_CONFIG in written
    assert written[labels.SERVE_CONFIG_APPLIED] is None


def test_an_outdated_cluster_that_is_kept_gets_configs_unless_another_is_to_replace_it():
    kept = RolloutFacts(strategy=UpgradeType.NONE, active=ClusterFacts(recorded=True, exists=True))
    assert keeps_outdated_cluster(kept)
    pending = ClusterFacts(recorded=True)
    assert not keeps_outdated_cluster(replace(kept, pending=pending, rolling_back=True))
    assert not keeps_outdated_cluster(replace(kept, active=replace(kept.active, exists=False)))
    assert not keeps_outdated_cluster(replace(kept, goal=GoalCluster.ACTIVE))
    assert not keeps_outdated_cluster(replace(kept, strategy=UpgradeType.NEW_CLUSTER))
