"""A pod counts as present whatever labels are taken off it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration.harness import example_cluster
from tests.simulation.referee import ACTOR, Intent, Referee

CLUSTER: dict[str, Any] = example_cluster(replicas=1)
CLUSTER["metadata"] |= {"uid": "uid-cluster", "generation": 1, "namespace": "default"}


def pod(name: str, role: str) -> dict[str, Any]:
    group = "headgroup" if role == "head" else CLUSTER["spec"]["workerGroupSpecs"][0]["groupName"]
    labels = {"is-ray-node": "yes", "cluster": "example", "node-type": role, "group": group}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {f"ray.io/{key}": value for key, value in labels.items()},
            "ownerReferences": [{"uid": "uid-cluster", "controller": True}],
        },
        "spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.52.0"}]},
    }


def event(kind: str, obj: dict[str, Any]) -> Any:
    table = "pods" if obj["kind"] == "Pod" else "rayclusters.ray.io"
    return SimpleNamespace(type=kind, table=table, current=SimpleNamespace(object=obj))


@pytest.mark.parametrize("role", ["head", "worker"])
def test_a_second_one_beside_a_pod_without_labels_is_found(role: str):
    referee = Referee(SimpleNamespace(time=lambda: 5.0))  # type: ignore[arg-type]
    referee(event("ADDED", CLUSTER))
    for name in ("first", "second"):
        referee._creates[name] = Intent(1, 1.0)
    token = ACTOR.set("operator-1")
    try:
        first = pod("first", role)
        referee(event("ADDED", first))
        assert referee.violations == []
        first["metadata"]["labels"] = {}
        referee(event("MODIFIED", first))
        referee(event("ADDED", pod("second", role)))
    finally:
        ACTOR.reset(token)
    assert "second" in referee.violations[0]
