"""Who has suspended or deleted an object, as far as it can be known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from controller.kube.objects import ObjectMeta
from controller.ray.api import RayCluster
from controller.ray.diagnosis.writes import deleted_by_others, suspended_by_others, suspension_of

Json = dict[str, Any]


def entry(manager: str, *fields: str, time: str, operation: str = "Update") -> Json:
    owned = {".": {}, **{f"f:{name}": {} for name in fields}}
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "ray.io/v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": owned, "f:metadata": {"f:labels": {"f:a": {}}}},
    }


def cluster(*managed: Json, suspend: Any = True, owners: Sequence[Json] = ()) -> RayCluster:
    meta = {"name": "c", "managedFields": list(managed), "ownerReferences": list(owners)}
    return msgspec.convert({"metadata": meta, "spec": {"suspend": suspend}}, RayCluster)


def test_the_manager_of_the_field_is_named_and_not_who_wrote_something_else():
    found = cluster(
        entry("kueue", "suspend", time="2026-11-27T10:00:00Z"),
        entry("kubectl-edit", "rayVersion", time="2026-11-27T11:00:00Z"),
    )
    assert suspension_of(found) == "set by kueue (Update at 2026-11-27T10:00:00Z)"


def test_of_two_managers_of_the_field_the_later_one_is_named():
    found = cluster(
        entry("argocd", "suspend", time="2026-11-27T10:00:00Z", operation="Apply"),
        entry("kueue", "suspend", time="2026-11-27T11:00:00Z"),
    )
    assert "kueue" in suspension_of(found)


def test_a_manager_without_a_name_or_a_time_is_told_as_far_as_it_is_known():
    nameless = entry("", "suspend", time="2026-11-27T12:00:00Z")
    timeless = entry("kueue", "suspend", time="") | {"time": None}
    assert suspension_of(cluster(nameless)) == ""
    assert suspension_of(cluster(nameless, timeless)) == "set by kueue (Update)"


@pytest.mark.parametrize("manager", ["manta-operator", "kuberay-operator"])
def test_what_an_operator_has_set_came_from_a_webhook(manager: str):
    said = suspension_of(cluster(entry(manager, "suspend", time="2026-11-27T10:00:00Z")))
    assert said.startswith(f"an admission webhook set it when {manager} wrote the RayCluster")


def test_what_an_operator_has_set_on_a_child_may_be_what_the_owner_asks_for():
    owner = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "svc", "uid": "u"}
    found = cluster(
        entry("manta-operator", "suspend", time="2026-11-27T10:00:00Z"),
        owners=[owner | {"controller": True}],
    )
    assert suspension_of(found) == (
        "set for RayService svc, or by an admission webhook (Update at 2026-11-27T10:00:00Z)"
    )
    said = suspended_by_others(found, "RayService", asked=False)
    assert "an admission webhook set it when manta-operator wrote" in said


def test_a_child_that_is_suspended_as_its_owner_asks_or_not_at_all_needs_no_sentence():
    found = cluster(entry("kueue", "suspend", time="2026-11-27T10:00:00Z"))
    assert suspended_by_others(found, "RayJob", asked=True) == ""
    assert suspended_by_others(cluster(suspend=False), "RayJob", asked=False) == ""
    assert suspended_by_others(None, "RayJob", asked=False) == ""
    said = suspended_by_others(found, "RayJob", asked=False)
    assert said.startswith("spec.suspend of RayCluster c is true, which this RayJob does not ask")
    assert "set by kueue" in said
    assert "does not tell who" in suspended_by_others(cluster(), "RayJob", asked=False)


@pytest.mark.parametrize(
    ("key", "tool"),
    [
        ("argocd.argoproj.io/tracking-id", "Argo CD"),
        ("kustomize.toolkit.fluxcd.io/name", "Flux"),
        ("app.kubernetes.io/instance", "Argo CD or another tool"),
    ],
)
def test_a_mark_by_which_a_tool_prunes_is_named(key: str, tool: str):
    for owner in (ObjectMeta(labels={key: "x"}), ObjectMeta(annotations={key: "x"})):
        said = deleted_by_others(owner, "RayCluster c")
        assert said.startswith("RayCluster c was deleted by somebody else; ")
        assert f"{key} from this object, by which {tool}" in said


def test_without_such_a_mark_the_audit_log_is_named():
    said = deleted_by_others(ObjectMeta(labels={"team": "a"}), "RayCluster c")
    assert said.endswith("the audit log of the API server names the client")
