"""Fields that KubeRay's API defines hold KubeRay's values only; what Manta adds stands beside."""

from __future__ import annotations

import pytest

from controller.kube.resources import PODS
from controller.ray.dashboard.responses import JobStatus
from controller.ray.diagnosis.writes import failure_reason
from controller.ray.head import HEAD_SCOPE, worker_scope
from controller.ray.job.facts import FailureReason, State
from controller.runtime.plan import Create, Delete, Target
from tests.ray.kuberay_values import JOB_FIELDS, REPLICA_FAILURES, foreign_values


def test_states_and_reasons_of_a_rayjob_are_kuberays():
    assert {state.value for state in State} == JOB_FIELDS["jobDeploymentStatus"]
    assert {status.value for status in JobStatus} | {""} == JOB_FIELDS["jobStatus"]
    assert {reason.for_status for reason in FailureReason} | {""} == JOB_FIELDS["reason"]


def test_a_reason_of_our_own_stands_in_conditions_events_and_attempts_only():
    ours = {reason for reason in FailureReason if reason.title not in JOB_FIELDS["reason"]}
    assert ours == {FailureReason.HEAD_LOST}
    assert FailureReason.HEAD_LOST.for_status == "AppFailed"


def test_failures_of_pods_have_kuberays_reasons():
    for scope in (HEAD_SCOPE, worker_scope("small")):
        target = Target(PODS, "default", "a", scope)
        assert failure_reason(Create(target, {})) in REPLICA_FAILURES
        assert failure_reason(Delete(target, "uid")) in REPLICA_FAILURES


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("RayJob", {"reason": "HeadLost"}, "RayJob reason is 'HeadLost'"),
        ("RayCluster", {"state": "broken"}, "RayCluster state is 'broken'"),
        (
            "RayCluster",
            {"conditions": [{"type": "ReplicaFailure", "reason": "FailedUpdateHeadPod"}]},
            "RayCluster ReplicaFailure has the reason 'FailedUpdateHeadPod'",
        ),
        ("RayService", {"serviceStatus": "Broken"}, "RayService serviceStatus is 'Broken'"),
        (
            "RayService",
            {"conditions": [{"type": "Ready", "reason": "Elsewhere"}]},
            "RayService Ready has the reason 'Elsewhere'",
        ),
    ],
)
def test_a_foreign_value_is_found(kind: str, status: dict[str, object], words: str):
    assert list(foreign_values(kind, status)) == [words]
