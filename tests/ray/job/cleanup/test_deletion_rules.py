"""What is deleted after a job, and when: the rules, the two policies of old, the shutdown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controller.ray.api import FeatureGates, RayCluster
from controller.ray.api.rayjob import DeletionPolicy
from controller.ray.api.validation.deletion_strategy import deletion_holes
from controller.ray.job.cleanup import (
    FinishedJob,
    deleted_of,
    due_deletion,
    unmatched_end,
    worker_suspensions,
)
from controller.ray.settings import RaySettings
from tests.ray.job.rayjobs import rayjob, valid

END = datetime(2026, 8, 20, 10, 0, tzinfo=UTC)
NONE, WORKERS = DeletionPolicy.NONE, DeletionPolicy.WORKERS
CLUSTER, SELF = DeletionPolicy.CLUSTER, DeletionPolicy.SELF
STAGED = {
    "deletionRules": [
        {"policy": "DeleteWorkers", "condition": {"jobStatus": "FAILED", "ttlSeconds": 30}},
        {"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED", "ttlSeconds": 60}},
        {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 90}},
        {"policy": "DeleteNone", "condition": {"jobStatus": "SUCCEEDED"}},
    ]
}
LEGACY = {"onSuccess": {"policy": "DeleteWorkers"}, "onFailure": {"policy": "DeleteCluster"}}


def due(
    seconds: float,
    *,
    status: str = "SUCCEEDED",
    deployment: str = "",
    left: DeletionPolicy = NONE,
    settings: RaySettings | None = None,
    **spec: Any,
) -> tuple[DeletionPolicy | None, float | None]:
    """What is due so long after the end, and after how many seconds to ask again."""
    deployment = deployment or ("Failed" if status == "FAILED" else "Complete")
    ended = FinishedJob(END, status, deployment, left)
    now = END + timedelta(seconds=seconds)
    action, wake = due_deletion(valid(rayjob(**spec)), ended, now, settings or RaySettings())
    return action, None if wake is None else wake.total_seconds()


def test_shutdown_deletes_the_cluster_when_its_time_has_come():
    job = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 10}
    assert due(0, **job) == (None, 10)
    assert due(9.5, **job) == (None, 0.5)
    assert due(10, **job) == (CLUSTER, None)
    assert due(10, left=WORKERS, **job) == (CLUSTER, None)
    assert due(10, left=CLUSTER, **job) == (None, None)


def test_a_cluster_of_another_owner_is_not_shut_down():
    job = {"clusterSelector": {"ray.io/cluster": "a"}, "shutdownAfterJobFinishes": True}
    assert due(0, **job) == (None, None)
    assert due(0, settings=RaySettings(delete_finished_jobs=True), **job) == (None, None)


def test_rules_come_due_one_after_the_other():
    def at(seconds: float, left: DeletionPolicy) -> tuple[DeletionPolicy | None, float | None]:
        return due(seconds, status="FAILED", left=left, deletionStrategy=STAGED)

    assert at(0, NONE) == (None, 30)
    assert at(30, NONE) == (WORKERS, 30)
    assert at(31, WORKERS) == (None, 29)
    assert at(60, WORKERS) == (CLUSTER, 30)
    assert at(61, CLUSTER) == (None, 29)
    assert at(90, CLUSTER) == (SELF, None)


def test_of_several_rules_that_are_due_the_one_that_deletes_most_acts():
    reverse = {"deletionRules": STAGED["deletionRules"][::-1]}
    for strategy in (STAGED, reverse):
        assert due(70, status="FAILED", deletionStrategy=strategy) == (CLUSTER, 20)
        assert due(95, status="FAILED", deletionStrategy=strategy) == (SELF, None)


def test_a_rule_that_was_met_otherwise_is_not_waited_for():
    gone = CLUSTER
    assert due(0, status="FAILED", left=gone, deletionStrategy=STAGED) == (None, 90)


def test_a_rule_may_be_about_the_deployment():
    condition = {"jobDeploymentStatus": "Failed", "ttlSeconds": 5}
    strategy = {"deletionRules": [{"policy": "DeleteCluster", "condition": condition}]}
    assert due(5, status="", deployment="Failed", deletionStrategy=strategy) == (CLUSTER, None)
    assert due(5, status="", deployment="Complete", deletionStrategy=strategy) == (None, None)


def test_the_two_policies_of_old_wait_for_the_jobs_time_to_live():
    job: dict[str, Any] = {
        "deletionStrategy": LEGACY,
        "ttlSecondsAfterFinished": 10,
        "shutdownAfterJobFinishes": True,
    }
    assert due(0, **job) == (None, 10)
    assert due(10, **job) == (WORKERS, None)
    assert due(10, status="FAILED", **job) == (CLUSTER, None)
    assert due(10, left=WORKERS, **job) == (None, None)
    for status in ("STOPPED", ""):
        assert due(10, status=status, deployment="Failed", **job) == (None, None)


def test_delete_none_deletes_nothing():
    none = {"policy": "DeleteNone"}
    strategy = {"onSuccess": none, "onFailure": none}
    assert due(10**6, deletionStrategy=strategy) == (None, None)


def test_without_the_gate_a_strategy_is_not_followed():
    settings = RaySettings(feature_gates=FeatureGates.parse("RayJobDeletionPolicy=false"))
    assert due(100, status="FAILED", settings=settings, deletionStrategy=STAGED) == (None, None)
    job: dict[str, Any] = {"deletionStrategy": LEGACY, "shutdownAfterJobFinishes": True}
    assert due(0, settings=settings, **job) == (CLUSTER, None)


def cluster(*groups: Any, **metadata: Any) -> RayCluster:
    raw = {"metadata": {"name": "a"} | metadata, "spec": {"workerGroupSpecs": list(groups)}}
    return msgspec.convert(raw, RayCluster)


ON, OFF = {"groupName": "on"}, {"groupName": "off", "suspend": True}


@pytest.mark.parametrize(
    ("present", "left"),
    [
        (None, CLUSTER),
        (cluster(ON, deletionTimestamp="2026-08-20T10:00:00Z"), CLUSTER),
        (cluster(ON), NONE),
        (cluster(ON, OFF), NONE),
        (cluster(OFF), WORKERS),
        (cluster(), WORKERS),
        (RayCluster(spec="x"), WORKERS),
        (cluster(5, None), NONE),
    ],
)
def test_what_is_left_of_a_cluster(present: RayCluster | None, left: DeletionPolicy):
    assert deleted_of(present) is left


def test_workers_are_deleted_by_suspending_the_groups_that_are_not():
    assert list(worker_suspensions(cluster(OFF, ON))) == [
        {"op": "test", "path": "/spec/workerGroupSpecs/1/groupName", "value": "on"},
        {"op": "add", "path": "/spec/workerGroupSpecs/1/suspend", "value": True},
    ]
    assert list(worker_suspensions(cluster(OFF))) == []


def rules(*cases: str) -> dict[str, Any]:
    """A strategy that deletes the cluster in these cases."""
    return {
        "deletionRules": [
            {"policy": "DeleteCluster", "condition": dict([case.split(" ")])} for case in cases
        ]
    }


SUCCEEDED, FAILED = "jobStatus SUCCEEDED", "jobStatus FAILED"
ANY_FAILURE = "jobDeploymentStatus Failed"


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (rules(SUCCEEDED, FAILED), "that fails without a result from Ray"),
        (rules(SUCCEEDED), "that fails, or that fails without a result"),
        (rules(ANY_FAILURE), "that succeeds: "),
        (rules(FAILED), "that succeeds, or that fails without a result"),
        (LEGACY, "onSuccess and onFailure: nothing is deleted after a job that fails without"),
        (rules(SUCCEEDED, ANY_FAILURE), ""),
        (None, ""),
    ],
)
def test_an_end_after_which_nothing_is_deleted_is_named_beforehand(
    strategy: dict[str, Any] | None, words: str
):
    spec = valid(rayjob(deletionStrategy=strategy))
    text = deletion_holes(spec, FeatureGates())
    assert words in text
    assert bool(text) == bool(words)


@pytest.mark.parametrize("status", ["", "RUNNING", "PENDING", "STOPPED"])
@pytest.mark.parametrize("strategy", [rules(SUCCEEDED, FAILED), LEGACY], ids=["rules", "older"])
def test_an_end_that_no_rule_is_about_is_named_with_the_rules(
    strategy: dict[str, Any], status: str
):
    ended = FinishedJob(END, status, "Failed", NONE)
    text = unmatched_end(valid(rayjob(deletionStrategy=strategy)), ended, RaySettings())
    assert f"jobDeploymentStatus Failed with {f'jobStatus {status}' if status else 'no'}" in text
    assert f"{SUCCEEDED}, {FAILED}" in text
    assert ANY_FAILURE in text.partition("; ")[2], "the remedy"


def test_an_end_that_a_rule_is_about_is_no_hole():
    for strategy, status, deployment in (
        (rules(ANY_FAILURE), "RUNNING", "Failed"),
        (rules(FAILED), "FAILED", "Failed"),
        (STAGED, "SUCCEEDED", "Complete"),
        (None, "RUNNING", "Failed"),
    ):
        ended = FinishedJob(END, status, deployment, NONE)
        spec = valid(rayjob(deletionStrategy=strategy))
        assert unmatched_end(spec, ended, RaySettings()) == ""


def test_a_job_that_somebody_stopped_gets_no_advice_that_no_rule_can_follow():
    ended = FinishedJob(END, "STOPPED", "Complete", NONE)
    text = unmatched_end(
        valid(rayjob(deletionStrategy=rules(SUCCEEDED, FAILED))), ended, RaySettings()
    )
    assert "jobDeploymentStatus Complete with jobStatus STOPPED" in text
    assert ANY_FAILURE not in text


def test_advice_about_the_two_policies_of_old_is_no_combination_that_is_refused():
    ended = FinishedJob(END, "", "Failed", NONE)
    instead = "in deletionRules instead of the two policies"
    for strategy, is_old in ((LEGACY, True), (rules(SUCCEEDED), False)):
        text = unmatched_end(valid(rayjob(deletionStrategy=strategy)), ended, RaySettings())
        assert (instead in text) == is_old
