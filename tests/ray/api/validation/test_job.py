"""The table of things that can be wrong with a RayJob, each found where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.apimachinery.custom_object import status_of
from controller.apimachinery.problem import Problem
from controller.ray.api import FeatureGates, SubmissionMode
from controller.ray.api.validation.job import validate_job, validate_job_status
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
