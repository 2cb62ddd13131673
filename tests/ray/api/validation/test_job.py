"""The table of things that can be wrong with a RayJob, each found where it is."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.apimachinery.custom_object import parse, status_of
from controller.apimachinery.validation import Problem
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


# -- pairs of rules ------------------------------------------------------------------------------


Row = dict[str, Any]


def told(manifest: dict[str, Any]) -> tuple[Problem, ...]:
    found = validate_job(rayjob(manifest))
    return found.all if isinstance(found, Problem) else ()


def is_of_its_type(row: Row) -> bool:
    """Whether all fields have the right types: the definition refuses the others before."""
    if row["words"].startswith("Expected"):  # within an embedded cluster or template
        return False
    try:
        parse(rayjob(changed(job_manifest(), row["set"])).spec, JobSpec)
    except msgspec.ValidationError:
        return False
    return True


ROWS = [row for row in WRONG if is_of_its_type(row)]


def name(row: Row) -> str:
    return f"{row['field']}: {row['words']}"


def overlap(one: set[str], other: set[str]) -> bool:
    return any(a == b or a.startswith((f"{b}.", f"{b}[")) for a in one for b in other) or any(
        b.startswith((f"{a}.", f"{a}[")) for a in one for b in other
    )


def remedies(row: Row) -> list[dict[str, Any]]:
    return row.get("remedies") or [{row["field"]: None}]


def concerned(row: Row) -> set[str]:
    """The fields that a row is about: those that make it wrong, and those that mend it."""
    mended = {path for remedy in remedies(row) for path in remedy}
    return {row["field"], *row["set"], *mended}


def told_alone(row: Row) -> Problem:
    return next(
        each
        for each in told(changed(job_manifest(), row["set"]))
        if each.field == row["field"] and row["words"] in each.message
    )


def is_cured(fields: set[str], manifest: dict[str, Any], rows: tuple[Row, Row]) -> bool:
    """Whether what is wrong with these fields is right beside the rest, and stays so."""
    after = (told(changed(manifest, remedy)) for row in rows for remedy in remedies(row))
    return all(each.field not in fields for found in after for each in found)


def pairs() -> list[tuple[Row, Row]]:
    """Every two rows that can be wrong in one RayJob."""
    return [
        (one, other)
        for one, other in combinations(ROWS, 2)
        if not overlap(set(one["set"]), set(other["set"]))
    ]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_the_remedy_of_a_problem_is_one(row: Row):
    manifest = changed(job_manifest(), row["set"])
    before = {each.field for each in told(manifest)}
    for remedy in remedies(row):
        left = [each.field for each in told(changed(manifest, remedy))]
        assert row["field"] not in left or left.count(row["field"]) < len(before)
        assert set(left) <= before, f"{remedy} leads to {left}, which nobody had told"


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_contradiction_names_all_of_its_fields(row: Row):
    problem = told_alone(row)
    for field in problem.against:
        assert field in problem.message or field in problem.field, problem


@pytest.mark.slow
def test_two_problems_are_both_told_and_no_remedy_leads_to_a_third():
    checked = 0
    for one, other in pairs():
        manifest = changed(changed(job_manifest(), one["set"]), other["set"])
        found = told(manifest)
        fields = {each.field for each in found}
        contradictory = [bool(each.against) for each in found]
        assert contradictory == sorted(contradictory, reverse=True), (name(one), name(other))
        if not overlap(concerned(one), concerned(other)):
            missing = {one["field"], other["field"]} - fields
            assert not missing or is_cured(missing, manifest, (one, other)), (
                name(one),
                name(other),
            )
            checked += not missing
        for row in (one, other):
            if told_alone(row) not in found:
                continue  # together they are told otherwise, with another remedy
            for remedy in remedies(row):
                left = {each.field for each in told(changed(manifest, remedy))}
                assert left <= fields, (name(one), name(other), remedy, left - fields)
    assert checked > 1000


def test_a_suspended_job_on_a_selected_cluster_is_right_as_it_is():
    spec: dict[str, Any] = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "a"}}
    assert not told(job_manifest(suspend=True, **spec))
    assert not told(job_manifest(suspend=True, shutdownAfterJobFinishes=True, **spec))


def test_what_is_wrong_with_the_name_is_told_with_the_rest():
    fields = [each.field for each in told(job_manifest("A.B", backoffLimit=-1))]
    assert fields == ["metadata.name", "spec.backoffLimit"]
