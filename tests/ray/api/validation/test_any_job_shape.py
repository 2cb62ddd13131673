"""Whatever stands in a RayJob, it is told what is wrong, or everything for it can be made."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.apimachinery.problem import Problem
from controller.ray.api import JobSpec, RayCluster
from controller.ray.api.validation.job import validate_job
from controller.ray.head.endpoint import read_cluster_spec
from tests.ray.cluster.test_any_shape import ODD, paths, with_value
from tests.ray.job.golden_jobs import made_for, stored

FEATURES = sorted((Path(__file__).parents[2] / "job" / "golden" / "features").glob("*.job.yaml"))
HUGE: list[Any] = [10**400, -(10**30), "x" * 70, "a b"]


def variants(raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The manifest with each value in turn replaced by everything that is odd there."""
    for path in paths(raw["spec"]):
        for value in [*ODD, *HUGE] if path else ():
            yield with_value(raw, ("spec", *path), value)


@pytest.mark.slow
@pytest.mark.parametrize("manifest", FEATURES, ids=lambda path: path.name.split(".")[0])
def test_a_job_of_any_shape_can_be_made_or_is_told_why_not(manifest: Path):
    given = {
        each["kind"]: each for each in yaml.load_all(manifest.read_text(), Loader=yaml.CSafeLoader)
    }
    existing = given.get("RayCluster")
    outcomes = {JobSpec: 0, Problem: 0}
    for raw in variants(given["RayJob"]):
        found = validate_job(stored(raw))
        outcomes[type(found)] += 1
        if isinstance(found, JobSpec):
            msgspec.json.encode(list(made_for(copy.deepcopy(raw), existing)))
    assert min(outcomes.values()) > 5


@pytest.mark.parametrize("template", [{}, {"spec": 5}, {"spec": {"containers": [None]}}])
def test_a_cluster_of_another_owner_may_be_of_any_shape(template: dict[str, Any]):
    [manifest] = [path for path in FEATURES if path.name.startswith("existing")]
    job, cluster = yaml.load_all(manifest.read_text(), Loader=yaml.CSafeLoader)
    cluster["spec"]["headGroupSpec"]["template"] = template
    (submitter,) = made_for(job, cluster)
    assert submitter["spec"]["template"]["spec"]["containers"][0]["image"] == ""


@pytest.mark.parametrize(
    "head",
    [
        {"template": {"spec": 5}},
        {"template": {"spec": {"containers": []}}},
        {"template": {"spec": {"containers": [{"name": "a"}]}}, "headService": {"metadata": 5}},
    ],
)
def test_nothing_runs_on_a_cluster_of_another_owner_that_cannot_be_read(head: Any):
    [manifest] = [path for path in FEATURES if path.name.startswith("existing")]
    _, cluster = yaml.load_all(manifest.read_text(), Loader=yaml.CSafeLoader)
    assert read_cluster_spec(msgspec.convert(cluster, RayCluster)) is not None
    cluster["spec"]["headGroupSpec"] = head
    assert read_cluster_spec(msgspec.convert(cluster, RayCluster)) is None
