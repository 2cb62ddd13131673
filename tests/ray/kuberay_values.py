"""The values that KubeRay's API has for fields of a status, which programs switch over.

Taken from KubeRay's `ray-operator/apis/ray/v1` and `controllers/ray` at feeaf72f.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

JOB_FIELDS = {
    "jobDeploymentStatus": {
        "", "Initializing", "Waiting", "Running", "Complete", "Failed", "ValidationFailed",
        "Suspending", "Suspended", "Retrying",
    },
    "jobStatus": {"", "PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"},
    "reason": {
        "", "SubmissionFailed", "DeadlineExceeded", "PreRunningDeadlineExceeded", "AppFailed",
        "JobDeploymentStatusTransitionGracePeriodExceeded", "JobStatusCheckTimeoutExceeded",
        "ValidationFailed",
    },
}  # fmt: skip

CLUSTER_FIELDS = {"state": {"", "ready", "suspended", "failed"}, "reason": {""}}

REPLICA_FAILURES = {
    "FailedDeleteAllPods", "FailedDeleteHeadPod", "FailedCreateHeadPod", "FailedDeleteWorkerPod",
    "FailedCreateWorkerPod",
}  # fmt: skip

CONDITION_REASONS = {
    "RayClusterProvisioned": {"AllPodRunningAndReadyFirstTime", "RayClusterPodsProvisioning"},
    "ReplicaFailure": REPLICA_FAILURES,
    "RayClusterSuspending": {"RayClusterSuspending"},
    "RayClusterSuspended": {"RayClusterSuspended"},
}
"""Of a RayCluster. `HeadPodReady` also copies reasons of pods and containers."""

SERVICE_FIELDS = {"serviceStatus": {"", "Running"}}

SERVICE_REASONS = {
    "Initializing", "InitializingTimeout", "ZeroServeEndpoints", "NonZeroServeEndpoints",
    "BothActivePendingClustersExist", "NoPendingCluster", "NoActiveCluster", "ValidationFailed",
    "DesiredClusterSpecChanged", "SuspendRequested", "SuspendInProgress", "SuspendComplete",
    "RayServiceResumed",
}  # fmt: skip

SERVICE_CONDITION_REASONS = dict.fromkeys(
    ("Ready", "UpgradeInProgress", "RollbackInProgress", "Suspending", "Suspended"), SERVICE_REASONS
)
"""Of a RayService; `Ready` is KubeRay's there, unlike that of the other kinds."""

_FIELDS = {"RayJob": JOB_FIELDS, "RayCluster": CLUSTER_FIELDS, "RayService": SERVICE_FIELDS}
_REASONS = {"RayCluster": CONDITION_REASONS, "RayService": SERVICE_CONDITION_REASONS}


def foreign_values(kind: str, status: Mapping[str, Any]) -> Iterator[str]:
    """What a status holds that KubeRay would never write there, as sentences."""
    for name, allowed in _FIELDS.get(kind, {}).items():
        if status.get(name, "") not in allowed:
            yield f"{kind} {name} is {status[name]!r}"
    reasons = _REASONS.get(kind, {})
    for condition in status.get("conditions", ()):
        allowed = reasons.get(condition["type"])
        if allowed is not None and condition["reason"] not in allowed:
            yield f"{kind} {condition['type']} has the reason {condition['reason']!r}"
