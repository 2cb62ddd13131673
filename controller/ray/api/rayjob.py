"""RayJob: the cached view, and the typed reading of its specification.

As with RayCluster the cached object keeps plain data, and `parse_job_spec` says what is odd.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from controller.apimachinery.custom_object import CustomObject, fitting_status, mapping, parse
from controller.apimachinery.timestamps import parse_rfc3339
from controller.kube.objects import View
from controller.kube.resources import Resource

if TYPE_CHECKING:
    from datetime import datetime

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Template = dict[str, Any]
"""A pod template stays plain data: it is passed on to pods as the user wrote it."""


class RayJob(CustomObject, frozen=True, gc=True, weakref=True):
    """A RayJob as it is cached."""


RAYJOBS: Final = Resource("ray.io", "v1", "rayjobs", "RayJob", RayJob)


class SubmissionMode(Enum):
    """`spec.submissionMode`: who tells Ray to run the job."""

    K8S_JOB = "K8sJobMode"
    HTTP = "HTTPMode"
    INTERACTIVE = "InteractiveMode"
    SIDECAR = "SidecarMode"


class DeletionPolicy(Enum):
    """What is deleted when a job has ended."""

    CLUSTER = "DeleteCluster"
    WORKERS = "DeleteWorkers"
    SELF = "DeleteSelf"
    NONE = "DeleteNone"


class SubmitterConfig(View, frozen=True):
    """`spec.submitterConfig`."""

    backoff_limit: Int32 | None = None


class OutcomePolicy(View, frozen=True):
    """`spec.deletionStrategy.onSuccess` and `.onFailure`."""

    policy: DeletionPolicy | None = None


class DeletionCondition(View, frozen=True):
    """`spec.deletionStrategy.deletionRules[].condition`: one of the two, and a delay."""

    job_status: str | None = None
    job_deployment_status: str | None = None
    ttl_seconds: Int32 = 0


class DeletionRule(View, frozen=True):
    """`spec.deletionStrategy.deletionRules[]`."""

    policy: DeletionPolicy
    condition: DeletionCondition


class DeletionStrategy(View, frozen=True):
    """`spec.deletionStrategy`: rules, or the two policies of old."""

    on_success: OutcomePolicy | None = None
    on_failure: OutcomePolicy | None = None
    deletion_rules: tuple[DeletionRule, ...] = ()


class JobSpec(View, frozen=True):
    """`spec` of a RayJob. Durations are seconds.

    Attributes:
        given_mode: `spec.submissionMode` as it was written; read `submission_mode`.
        ray_cluster_spec: plain data, nulls dropped: it is passed on as the user wrote it.
    """

    entrypoint: str = ""
    runtime_env_yaml: str = msgspec.field(default="", name="runtimeEnvYAML")
    metadata: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    job_id: str = ""
    given_mode: str = msgspec.field(default="", name="submissionMode")
    cluster_selector: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    ray_cluster_spec: dict[str, Any] | None = None
    suspend: bool = False
    managed_by: str | None = None
    backoff_limit: Int32 = 0
    active_deadline_seconds: Int32 | None = None
    pre_running_deadline_seconds: Int32 | None = None
    ttl_seconds_after_finished: Int32 = 0
    shutdown_after_job_finishes: bool = False
    deletion_strategy: DeletionStrategy | None = None
    submitter_pod_template: Template | None = None
    submitter_config: SubmitterConfig | None = None
    entrypoint_num_cpus: float = 0.0
    entrypoint_num_gpus: float = 0.0
    entrypoint_resources: str = ""

    @property
    def submission_mode(self) -> SubmissionMode:
        """The mode, nothing meaning `K8sJobMode`.

        Raises:
            ValueError: there is no such mode; never in a specification that was validated.
        """
        return SubmissionMode(self.given_mode) if self.given_mode else SubmissionMode.K8S_JOB

    @property
    def selected_cluster(self) -> str:
        """Name of the cluster of somebody else that the job runs on; empty if it has its own."""
        return self.cluster_selector.get(CLUSTER_KEY, "")


CLUSTER_KEY: Final = "ray.io/cluster"
"""The one key of `spec.clusterSelector` that counts."""

_STATUS_PARTS: Final[dict[str, type]] = {
    "attempts": list,
    "conditions": list,
    "dashboardURL": str,
    "endTime": str,
    "failed": int,
    "jobDeploymentStatus": str,
    "jobId": str,
    "jobStatus": str,
    "jobStatusCheckFailureStartTime": str,
    "message": str,
    "observedGeneration": int,
    "rayClusterName": str,
    "rayClusterStatus": dict,
    "rayJobInfo": dict,
    "reason": str,
    "startTime": str,
    "succeeded": int,
}
_RECKONABLE_YEARS: Final = range(1970, 9000)
"""Any `int32` of seconds can be added to their times."""
_STATUS_TIMES: Final = ("endTime", "jobStatusCheckFailureStartTime", "startTime")


def parse_job_spec(job: RayJob) -> JobSpec:
    """The typed specification, nulls dropped. Costs a copy: parse once per object.

    Raises:
        msgspec.ValidationError: a field has the wrong type.
    """
    return parse(job.spec, JobSpec)


def status_of(job: RayJob) -> dict[str, Any]:
    """The present status. What has the wrong type counts as absent, so that it is written anew.

    `startTime`, `endTime` and `jobStatusCheckFailureStartTime` can be read by `time_of` if there,
    `attempts` and `conditions` hold mappings.
    """
    status = fitting_status(job, _STATUS_PARTS)
    for name in _STATUS_TIMES:
        if name in status and time_of(status[name]) is None:
            del status[name]
    if "attempts" in status:
        status["attempts"] = [each for each in status["attempts"] if mapping(each)]
    return status


def time_of(text: Any) -> datetime | None:
    """A time as the API server writes it; None if it is none that can be reckoned with."""
    try:
        moment = parse_rfc3339(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.year in _RECKONABLE_YEARS else None
