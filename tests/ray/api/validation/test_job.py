"""The table of things that can be wrong with a RayJob, each found where it is."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.apimachinery.custom_object import status_of
from controller.apimachinery.problem import Problem
from controller.ray.api import FeatureGates, JobSpec, RayCluster, SubmissionMode
from controller.ray.api.validation.job import validate_job, validate_job_status
from controller.ray.head import read_cluster_spec
from tests.ray.cluster.test_any_shape import ODD, paths, with_value
from tests.ray.job.golden_jobs import made_for, stored
from tests.ray.job.rayjobs import changed, job_manifest, rayjob, sample_jobs, valid
from tests.samples import SAMPLES

HERE = Path(__file__).parent
WRONG: list[dict[str, Any]] = yaml.load(
    (HERE / "invalid_jobs.yaml").read_text(), Loader=yaml.CSafeLoader
)
RIGHT: list[dict[str, Any]] = yaml.load(
    (HERE / "valid_jobs.yaml").read_text(), Loader=yaml.CSafeLoader
)


@pytest.mark.parametrize("row", WRONG, ids=lambda row: f"{row['field']}: {row['words']}")
def test_what_is_wrong_is_told_with_its_path_and_a_remedy(row: dict[str, Any]):
    problem = validate_job(rayjob(changed(job_manifest(), row["set"])))
    assert isinstance(problem, Problem), problem
    assert problem.field == row["field"], problem
    assert row["words"] in problem.message, problem
    of_metadata = row["field"] == "metadata.name"
    assert problem.reason == ("InvalidRayJobMetadata" if of_metadata else "InvalidRayJobSpec")


@pytest.mark.parametrize("changes", RIGHT, ids=lambda v: str(v)[:60])
def test_what_is_right_passes(changes: dict[str, Any]):
    valid(rayjob(changed(job_manifest(), changes)))


def test_deletion_rules_need_their_gate():
    rules = [{"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED"}}]
    job = rayjob(deletionStrategy={"deletionRules": rules})
    problem = validate_job(job, FeatureGates.parse("RayJobDeletionPolicy=false"))
    assert str(problem) == "spec.deletionStrategy: needs the feature gate RayJobDeletionPolicy"


def test_the_first_problem_in_kuberays_order_is_told():
    job = rayjob(suspend=True, ttlSecondsAfterFinished=-1, backoffLimit=-1, runtimeEnvYAML="[")
    assert str(validate_job(job)).startswith("spec.suspend: ")


def test_only_an_interactive_job_may_wait():
    assert validate_job_status(valid(rayjob(submissionMode="InteractiveMode")), "Waiting") is None
    problem = validate_job_status(valid(rayjob()), "Waiting")
    assert problem is not None
    assert problem.reason == "InvalidRayJobStatus"
    assert problem.field == "status.jobDeploymentStatus"
    assert validate_job_status(valid(rayjob()), "Running") is None


def test_no_mode_is_the_default_mode():
    assert valid(rayjob()).submission_mode is SubmissionMode.K8S_JOB
    assert valid(rayjob(submissionMode="HTTPMode")).submission_mode is SubmissionMode.HTTP


@pytest.mark.parametrize("document", sample_jobs(), ids=lambda each: each["metadata"]["name"])
def test_every_sample_is_valid(document: dict[str, Any]):
    for group in document["spec"].get("rayClusterSpec", {}).get("workerGroupSpecs", ()):
        group.setdefault("minReplicas", 0)
        group.setdefault("maxReplicas", 2**31 - 1)
    valid(rayjob(document))


def test_the_samples_are_there():
    if not SAMPLES.exists():
        pytest.skip(f"SKIPPED, NOT PASSED: KubeRay's samples are not at {SAMPLES}")
    assert len(sample_jobs()) >= 9


def test_a_status_of_the_wrong_type_counts_as_absent():
    status = {
        "failed": True,
        "succeeded": 1,
        "startTime": "yesterday",
        "endTime": "2026-08-20T10:00:00Z",
        "jobId": 5,
        "attempts": [{"number": 1}, "x", None],
        "conditions": [{"type": "Ready"}, {"type": 5}, 7],
        "rayJobInfo": [],
    }
    assert status_of(rayjob(job_manifest() | {"status": status})) == {
        "succeeded": 1,
        "endTime": "2026-08-20T10:00:00Z",
        "attempts": [{"number": 1}],
        "conditions": [{"type": "Ready"}],
    }


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
