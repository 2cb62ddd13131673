"""KubeRay's ClusterRoles for people, beside those of KubeRay's chart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.helm import CHART, KUBERAY_CHART, needs_helm, needs_kuberay_charts, rendered

pytestmark = [pytest.mark.slow, needs_helm]

KINDS = ("rayjob", "rayservice", "raycronjob")
NAMES = {f"{kind}-{role}-role" for kind in KINDS for role in ("editor", "viewer")}
AGGREGATION = "rbac.authorization.k8s.io/aggregate-to-"


def roles(*values: str, **chart: Any) -> dict[str, dict[str, Any]]:
    found = rendered(chart.get("chart", CHART), *values)
    return {
        each["metadata"]["name"]: each
        for each in found
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] in NAMES
    }


def rights(role: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@needs_kuberay_charts
def test_they_are_those_of_kuberays_chart():
    ours, theirs = roles("userRoles.create=true"), roles(chart=KUBERAY_CHART)
    assert ours.keys() == theirs.keys() == NAMES
    for name, role in theirs.items():
        assert rights(ours[name]) == rights(role), name
        assert not any(key.startswith(AGGREGATION) for key in role["metadata"]["labels"])
        assert not any(key.startswith(AGGREGATION) for key in ours[name]["metadata"]["labels"])


def test_an_editor_may_write_and_a_viewer_may_not():
    found = roles("userRoles.create=true")
    for kind in KINDS:
        plural = f"{kind}s"
        reads = {("ray.io", plural, verb) for verb in ("get", "list", "watch")}
        reads.add(("ray.io", f"{plural}/status", "get"))
        writes = {("ray.io", plural, verb) for verb in ("create", "delete", "patch", "update")}
        assert rights(found[f"{kind}-viewer-role"]) == reads
        assert rights(found[f"{kind}-editor-role"]) == reads | writes


def test_aggregated_they_become_part_of_edit_and_view():
    for name, role in roles("userRoles.create=true", "userRoles.aggregate=true").items():
        into = "edit" if "editor" in name else "view"
        marks = {key for key in role["metadata"]["labels"] if key.startswith(AGGREGATION)}
        assert marks == {f"{AGGREGATION}{into}"}


@pytest.mark.parametrize(
    "values",
    [
        ("rbacEnable=true",),
        ("userRoles.create=true", "rbacEnable=false"),
        ("userRoles.create=true", "singleNamespaceInstall=true"),
    ],
)
def test_there_are_none_unless_asked_for_and_permitted(values: tuple[str, ...]):
    assert roles(*values) == {}
