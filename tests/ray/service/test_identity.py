"""Which changes of a cluster's specification ask for another cluster."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from controller.ray.service.identity import Origin, SpecChange, SpecIdentity

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


def recorded_earlier() -> str:
    """What an earlier version of the operator has stored about SPEC."""
    return "d69f0ed88b8475f8.a7541960bd5a6a41.1d989b412f5ba5d6"


def test_what_an_earlier_version_has_recorded_stays_comparable():
    recorded = SpecIdentity.parse(recorded_earlier())
    assert recorded is not None
    assert str(recorded) == recorded_earlier()

    def earlier(edit: Callable[[Spec], object]) -> SpecChange:
        edited = copy.deepcopy(SPEC)
        edit(edited)
        return recorded.change_to(SpecIdentity.of(edited))

    assert earlier(lambda spec: None) is SpecChange.NONE
    assert earlier(lambda spec: spec["workerGroupSpecs"].reverse()) is SpecChange.NONE
    added = {"groupName": "c"}
    assert earlier(lambda s: s["workerGroupSpecs"].insert(0, added)) is SpecChange.ADDED_GROUPS
    assert earlier(lambda spec: spec.update(rayVersion="2.61.0")) is SpecChange.NEW_CLUSTER


def test_what_an_earlier_version_has_recorded_of_lists_as_written_is_compared_as_written():
    spec = copy.deepcopy(SPEC)
    env = [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}]
    spec["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] = env
    identity = SpecIdentity.of(spec)
    recorded = SpecIdentity.parse(str(identity.earlier[-1]))
    assert recorded is not None
    assert recorded.cluster != identity.cluster
    assert recorded.change_to(identity) is SpecChange.NONE


def test_a_path_in_another_spelling_asks_for_no_other_cluster_whoever_has_recorded_it():
    spec, edited = copy.deepcopy(SPEC), copy.deepcopy(SPEC)
    for each, path in ((spec, "/data/"), (edited, "/data")):
        mount = [{"name": "v", "mountPath": path}]
        each["headGroupSpec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mount
    identity = SpecIdentity.of(spec)
    assert identity.change_to(SpecIdentity.of(edited)) is SpecChange.NONE
    recorded = SpecIdentity.parse(str(identity.earlier[0]))
    assert recorded is not None
    assert recorded.cluster != identity.cluster
    assert recorded.change_to(identity) is SpecChange.NONE


def test_an_identity_is_read_as_it_was_written():
    identity = SpecIdentity.of(SPEC)
    for each in (identity, *identity.earlier):
        assert SpecIdentity.parse(str(each)) == each


@pytest.mark.parametrize("generation", [7, None])
def test_an_origin_is_read_as_it_was_written(generation: int | None):
    origin = Origin(SpecIdentity.of(SPEC), generation)
    assert Origin.parse(str(origin)) == origin


@pytest.mark.parametrize("text", ["", "@", "@x", f"@{'1' * 5000}", "@\u00b2"])
def test_anything_else_is_no_origin(text: str):
    assert Origin.parse(text) == Origin(None)


@pytest.mark.parametrize("text", ["", "x", "a" * 16 + ".", "1234", "0" * 15 + "/"])
def test_anything_else_is_no_identity(text: str):
    assert SpecIdentity.parse(text) is None
