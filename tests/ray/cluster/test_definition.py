"""Which deletions an installed definition cannot explain."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from controller.apimachinery.object_schema import GroupVersionKind, parse_schema
from controller.command.manifests import load
from controller.ray.api.definitions.crds import raycluster_definition
from controller.ray.cluster.definition import read_definition
from controller.ray.cluster.workers.scale_down import DeletionCause
from controller.runtime.reconcile.kind import InstalledSchema

if TYPE_CHECKING:
    from controller.apimachinery.object_schema import ObjectSchema

KUBERAY_CRDS = Path(
    os.environ.get("MANTA_KUBERAY_CRDS", Path(__file__).parents[4] / "shared" / "crds")
)


def published(schema: dict[str, Any]) -> ObjectSchema:
    kind = GroupVersionKind("ray.io", "v1", "RayCluster")
    gvk = {"x-kubernetes-group-version-kind": [msgspec.to_builtins(kind)]}
    document = {"components": {"schemas": {"io.ray.v1.RayCluster": schema | gvk}}}
    found = parse_schema(msgspec.json.encode(document), kind)
    assert found is not None
    return found


def raycluster_schema() -> dict[str, Any]:
    v1 = raycluster_definition()["spec"]["versions"][0]
    return v1["schema"]["openAPIV3Schema"]


def without(*paths: str) -> dict[str, Any]:
    schema = copy.deepcopy(raycluster_schema())
    for path in paths:
        *parents, last = path.split(".")
        node = schema
        for name in parents:
            node = node["properties"][name]
            node = node.get("items", node)
        del node["properties"][last]
    return schema


def test_the_operators_own_definition_explains_everything():
    found = read_definition(InstalledSchema(published(raycluster_schema())))
    assert all(map(found.explains, DeletionCause))
    assert found.problem == ""


def test_kuberays_definition_explains_everything():
    file = KUBERAY_CRDS / "ray.io_rayclusters.yaml"
    if not file.exists():
        pytest.skip(f"SKIPPED, NOT PASSED: KubeRay's definitions are not at {KUBERAY_CRDS}")
    [v1] = [v for v in load(file)[0]["spec"]["versions"] if v["name"] == "v1"]
    found = read_definition(InstalledSchema(published(v1["schema"]["openAPIV3Schema"])))
    assert found.problem == ""


@pytest.mark.parametrize(
    ("paths", "missing", "undecidable"),
    [
        (["spec.workerGroupSpecs.numOfHosts"], None, {"RESIZED"}),
        (["spec.workerGroupSpecs.replicas"], None, {"SURPLUS"}),
        (["spec.enableInTreeAutoscaling"], None, {"SURPLUS"}),
        (["spec.workerGroupSpecs"], None, {"GROUP_REMOVED", "SURPLUS", "RESIZED"}),
        (["spec.suspend", "spec.workerGroupSpecs.priority"], [], set[str]()),
    ],
)
def test_a_missing_field_leaves_its_deletions_undecidable(
    paths: list[str], missing: list[str] | None, undecidable: set[str]
):
    found = read_definition(InstalledSchema(published(without(*paths))))
    assert list(found.missing) == (paths if missing is None else missing)
    assert {cause.name for cause in DeletionCause if not found.explains(cause)} == undecidable


def test_a_definition_that_preserves_everything_explains_everything():
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert read_definition(InstalledSchema(published(anything))).problem == ""


def test_an_unreadable_definition_is_reported_and_one_that_nobody_reads_is_not():
    assert "cannot be read (403)" in read_definition(InstalledSchema(error="403")).problem
    assert read_definition(InstalledSchema()).problem == ""
