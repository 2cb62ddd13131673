"""What is changed of a StatefulSet that exists, and what leaves a model server alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest

from controller.apimachinery.patches import json_patch
from controller.kaito.api.revisions import Revision, RevisionState
from controller.kaito.workloads.preset import (
    image_upgrade,
    is_on_local_disk,
    preset_changes,
    template_changes,
)
from controller.kube.objects import ObjectMeta, StatefulSet, StatefulSetSpec
from tests.kaito.workloads.given import Given, read_golden

Body = dict[str, Any]
ADAPTER = {"source": {"name": "one", "image": "example.com/one:1"}}


def stored(body: Body) -> Body:
    """The object as the server keeps it."""
    found = copy.deepcopy(body)
    found["metadata"] |= {"uid": "s-1", "resourceVersion": "12"}
    return found


def applied(present: Body, operations: tuple[dict[str, Any], ...]) -> Body:
    """The patched object; the same one if nothing is due."""
    if not operations:
        return present
    patched = json_patch(copy.deepcopy(present), copy.deepcopy(list(operations)))
    return cast("Body", patched)


def view(body: Body) -> StatefulSet:
    return msgspec.convert(body, StatefulSet)


def changed(present: Body, given: Given, revision: Revision) -> Body:
    """The object after the changes of a preset's new specification."""
    inference = given.spec.inference
    assert inference is not None
    seen = view(present)
    operations = preset_changes(seen, given.stateful_set(), inference, revision)
    return applied(present, operations)


def one_node() -> Given:
    return read_golden("preset-one-node")[0]


def edited(given: Given, **inference: Any) -> Given:
    return replace(given, inference={**(given.inference or {}), **inference})


NEXT = Revision(8, "another")


def test_an_edit_of_adapters_and_options_replaces_what_follows_from_them():
    before = one_node()
    present = stored(before.stateful_set())
    goal = edited(before, config="serving", adapters=[ADAPTER])
    after = changed(present, goal, NEXT)
    pod, wanted = after["spec"]["template"]["spec"], goal.stateful_set()["spec"]["template"]["spec"]
    main, goal_main = pod["containers"][0], wanted["containers"][0]
    for field in ("env", "volumeMounts", "image", "resources", "startupProbe"):
        assert main.get(field, []) == goal_main.get(field, [])
    assert pod["initContainers"] == wanted["initContainers"]
    assert pod["volumes"] == wanted["volumes"]
    assert after["metadata"]["annotations"] == {
        "workspace.kaito.io/revision": "8",
        "workspace.kaito.io/hash": "another",
    }


def customized(present: Body) -> None:
    spec = present["spec"]
    spec["replicas"] = 0
    spec["updateStrategy"] = {"type": "OnDelete"}
    pod = spec["template"]["spec"]
    pod["nodeSelector"] = {"own": "label"}
    pod["containers"].insert(0, {"name": "own", "image": "own"})
    pod["containers"][1] |= {"image": "own/base:1", "livenessProbe": {"exec": {"command": ["x"]}}}
    pod["containers"][1]["resources"]["limits"]["memory"] = "10Gi"
    present["metadata"]["labels"] = {"own": "label"}


def test_what_others_have_changed_stays_and_restarts_nothing():
    before = one_node()
    present = stored(before.stateful_set())
    customized(present)
    assert changed(present, before, before.revision) is present
    after = changed(copy.deepcopy(present), edited(before, config="serving"), NEXT)
    for body in (after, present):
        pod = body["spec"]["template"]["spec"]
        for field in ("env", "volumeMounts", "command"):
            pod["containers"][1].pop(field, None)
        pod.pop("volumes")
        pod.pop("initContainers", None)
        body["metadata"].pop("annotations")
    assert after == present


@pytest.mark.parametrize(
    ("annotations", "state"),
    [
        ({"workspace.kaito.io/revision": "7"}, RevisionState.PRESENT),
        ({"workspace.kaito.io/revision": "6"}, RevisionState.OUTDATED),
        (
            {"workspace.kaito.io/revision": "6", "workspace.kaito.io/hash": "h"},
            RevisionState.UNMARKED,
        ),
        (
            {"workspace.kaito.io/revision": "6", "workspace.kaito.io/hash": "g"},
            RevisionState.OUTDATED,
        ),
        ({}, RevisionState.UNMARKED),
        (None, RevisionState.UNMARKED),
    ],
)
def test_a_workload_is_outdated_only_if_number_and_hash_say_so(
    annotations: dict[str, str] | None, state: RevisionState
):
    assert Revision(7, "h").state_of(ObjectMeta(annotations=annotations)) is state


@pytest.mark.parametrize("annotations", [None, {}, {"own": "note"}])
def test_a_server_without_a_mark_is_marked_and_not_restarted(annotations: dict[str, str] | None):
    before = one_node()
    present = stored(before.stateful_set())
    present["metadata"].pop("annotations")
    if annotations is not None:
        present["metadata"]["annotations"] = annotations
    after = changed(copy.deepcopy(present), before, before.revision)
    assert after["spec"] == present["spec"]
    assert after["metadata"]["annotations"] == {
        **(annotations or {}),
        **before.revision.annotations,
    }
    assert changed(after, before, before.revision) is after


def test_a_server_without_containers_is_left_alone():
    before = one_node()
    present = stored(before.stateful_set())
    present["spec"]["template"]["spec"]["containers"] = []
    after = changed(present, before, NEXT)
    assert after["spec"] == present["spec"]


def template() -> Given:
    return read_golden("template")[0]


def retemplated(given: Given, image: str) -> Given:
    pod = {"spec": {"containers": [{"name": "own", "image": image}]}}
    return replace(given, inference={"template": pod})


def template_after(present: Body, given: Given, revision: Revision) -> Body:
    operations = template_changes(view(present), given.stateful_set(), revision)
    return applied(present, operations)


def test_an_edit_of_a_template_reaches_the_pods():
    before = template()
    present = stored(before.stateful_set())
    goal = retemplated(before, "example.com/own:2")
    after = template_after(present, goal, NEXT)
    assert after["spec"]["template"] == goal.stateful_set()["spec"]["template"]
    assert template_after(after, goal, NEXT) is after


def test_a_template_that_kaito_has_created_is_not_restarted_by_taking_over():
    before = template()
    present = stored(before.stateful_set())
    present["metadata"].pop("annotations")
    goal = retemplated(before, "example.com/own:2")
    after = template_after(copy.deepcopy(present), goal, NEXT)
    assert after["spec"] == present["spec"]
    assert after["metadata"]["annotations"] == NEXT.annotations


def test_labels_that_a_statefulset_selects_outlive_those_of_the_workspace():
    before = replace(template(), labels={"inferenceset.kaito.sh/created-by": "set"})
    present = stored(before.stateful_set())
    after = template_after(present, replace(before, labels={}), NEXT)
    assert after["spec"]["template"]["metadata"]["labels"] == {
        "kaito.sh/workspace": "phi",
        "inferenceset.kaito.sh/created-by": "set",
    }


def upgraded(present: Body, given: Given, version: str) -> Body:
    meta = replace(given, labels={"kaito.sh/upgrade-to-version": version}).workspace.metadata
    operations = image_upgrade(meta, view(present), given.stateful_set(), given.revision)
    return applied(present, operations)


def test_an_image_is_upgraded_only_if_a_label_asks_for_this_very_version():
    before = one_node()
    present = stored(before.stateful_set())
    present["spec"]["template"]["spec"]["containers"][0]["image"] = (
        "example.com/kaito/kaito-base:0.4"
    )
    present["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert upgraded(present, before, "") is present
    assert upgraded(present, before, "0.4.9") is present
    after = upgraded(copy.deepcopy(present), before, "0.5.0")
    assert after["spec"]["template"] == before.stateful_set()["spec"]["template"]
    assert after["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert upgraded(after, before, "0.5.0") is after


def test_a_server_without_containers_is_upgraded_as_a_whole():
    before = one_node()
    present = stored(before.stateful_set())
    present["spec"]["template"]["spec"]["containers"] = []
    after = upgraded(present, before, "0.5.0")
    assert after["spec"]["template"] == before.stateful_set()["spec"]["template"]


def test_every_change_is_one_to_the_object_that_was_read():
    before = one_node()
    present = view(stored(before.stateful_set()))
    inference = before.spec.inference
    assert inference is not None
    desired = before.stateful_set()
    label = {"kaito.sh/upgrade-to-version": "0.5.0"}
    asking = replace(before, labels=label).workspace.metadata
    outdated = msgspec.structs.replace(present, spec=StatefulSetSpec())
    makers: list[Callable[[], tuple[dict[str, Any], ...]]] = [
        lambda: preset_changes(present, desired, inference, NEXT),
        lambda: template_changes(present, desired, NEXT),
        lambda: image_upgrade(asking, outdated, desired, before.revision),
    ]
    for make in makers:
        assert make()[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "12"}


def test_a_server_shows_where_its_weights_are():
    assert is_on_local_disk(view(one_node().stateful_set()))
    assert not is_on_local_disk(view(template().stateful_set()))
