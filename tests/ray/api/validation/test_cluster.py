"""The table of things that can be wrong with a RayCluster, each found where it is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.apimachinery.validation import Problem
from controller.ray.api import ClusterSpec, FeatureGates, validate_cluster
from controller.ray.api.raycluster import RayCluster
from tests.ray.cluster.support import EXAMPLES, cluster, manifest


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """The example with values set (or, with None, removed) at dotted paths."""
    raw = copy.deepcopy(manifest())
    for path, value in changes.items():
        *parents, last = path.replace("[", ".").replace("]", "").split(".")
        node: Any = raw
        for part in parents:
            is_list = isinstance(node, list)
            node = node[int(part)] if is_list else node.setdefault(part, {})
        if value is None:
            del node[last]
        else:
            node[last] = value
    return raw


HERE = Path(__file__).parent
WRONG: list[dict[str, Any]] = yaml.load(
    (HERE / "invalid_clusters.yaml").read_text(), Loader=yaml.CSafeLoader
)
RIGHT: list[dict[str, Any]] = yaml.load(
    (HERE / "valid_clusters.yaml").read_text(), Loader=yaml.CSafeLoader
)
REASONS = {
    "metadata.name": "InvalidRayClusterMetadata",
    "status.conditions": "InvalidRayClusterStatus",
}


@pytest.mark.parametrize("row", WRONG, ids=lambda row: f"{row['field']}: {row['words']}")
def test_what_is_wrong_is_told_with_its_path_and_a_remedy(row: dict[str, Any]):
    problem = validate_cluster(cluster(changed(row["set"])))
    assert isinstance(problem, Problem), problem
    assert problem.field.startswith(row["field"]), problem
    assert row["words"] in problem.message, problem
    assert problem.reason == REASONS.get(row["field"], "InvalidRayClusterSpec")


@pytest.mark.parametrize("changes", RIGHT, ids=lambda v: str(v)[:60])
def test_what_is_right_passes(changes: dict[str, Any]):
    assert isinstance(validate_cluster(cluster(changed(changes))), ClusterSpec)


def test_two_groups_of_one_name_are_refused():
    raw = manifest()
    raw["spec"]["workerGroupSpecs"] *= 2
    problem = validate_cluster(cluster(raw))
    assert str(problem).startswith("spec.workerGroupSpecs[1].groupName: 'workers' names two groups")


@pytest.mark.parametrize("spec", [None, "text", 1, [], {"headGroupSpec": {"template": 1}}])
def test_a_specification_of_any_shape_is_a_problem_and_not_an_exception(spec: Any):
    stored = msgspec.convert({"metadata": {"name": "a"}, "spec": spec}, RayCluster)
    assert isinstance(validate_cluster(stored), Problem)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("raycluster*.yaml")), ids=lambda p: p.name)
def test_the_examples_are_valid(example: Path):
    gates = FeatureGates.parse("RayClusterMTLS=true")
    for document in yaml.load_all(example.read_text(), Loader=yaml.CSafeLoader):
        if document["kind"] == "RayCluster":
            assert isinstance(validate_cluster(cluster(document), gates), ClusterSpec)
