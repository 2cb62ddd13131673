"""The templates of all pods: what is kept of a specification, and what an undo brings back."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from controller.ray.pods.hashes import groups_only_in, templates_of, with_templates

POD = {"spec": {"containers": [{"name": "ray", "image": "ray:1"}]}}
NEW_POD = {"spec": {"containers": [{"name": "ray", "image": "ray:2"}]}}


def group(name: str, template: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"groupName": name, "replicas": 2, "template": template} | more


OLD = {
    "rayVersion": "2.60.0",
    "headGroupSpec": {"template": POD, "serviceType": "ClusterIP"},
    "workerGroupSpecs": [group("a", POD, labels={"x": "1"}), group("gone", POD)],
}
NEW = {
    "rayVersion": "2.61.0",
    "suspend": False,
    "headGroupSpec": {"template": NEW_POD, "serviceType": "NodePort", "resources": {"CPU": "0"}},
    "workerGroupSpecs": [group("a", NEW_POD, replicas=5), group("added", NEW_POD)],
}


def test_what_comes_back_is_the_templates_and_the_version_and_nothing_else():
    before = deepcopy(NEW)
    assert with_templates(NEW, templates_of(OLD)) == {
        "rayVersion": "2.60.0",
        "suspend": False,
        "headGroupSpec": {"template": POD, "serviceType": "NodePort"},
        "workerGroupSpecs": [
            group("a", POD, replicas=5, labels={"x": "1"}),
            group("added", NEW_POD),
        ],
    }
    assert before == NEW


def test_a_specification_with_its_own_templates_is_itself():
    assert with_templates(NEW, templates_of(NEW)) == NEW


def test_a_version_that_was_not_given_is_not_given_again():
    assert "rayVersion" not in with_templates(NEW, templates_of({"headGroupSpec": {}}))


def test_groups_of_one_side_only_are_named():
    assert groups_only_in(NEW, OLD) == ("added",)
    assert groups_only_in(OLD, NEW) == ("gone",)
