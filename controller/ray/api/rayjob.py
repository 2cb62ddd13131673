"""RayJob: the cached view and its typed specification.

As in `raycluster`, the cached object keeps plain data.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, ClassVar, Final, cast

import msgspec

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import (
    mapping,
    only,
    parse_readable,
    read_conditions,
)
from controller.kube.objects import View
from controller.kube.resources import Resource
from controller.ray.api.names import RayObject

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Template = dict[str, Any]
"""A pod template stays plain data and is copied to pods unchanged."""


def _read_time(value: Any) -> Any:
    return value if time_of(value) is not None else None


def _read_attempts(value: Any) -> list[Any] | None:
    """Return the attempts that are mappings."""
    items = cast("list[Any]", value) if isinstance(value, list) else None
    return None if items is None else [each for each in items if mapping(each)]


class RayJob(RayObject, frozen=True, gc=True, weakref=True):
    """A cached RayJob.

    In its status, `time_of` can parse `startTime`, `endTime` and `jobStatusCheckFailureStartTime`
    if they are present, and all `attempts` are mappings.
    """

    status_fields: ClassVar = {
        "attempts": _read_attempts,
        "conditions": read_conditions,
        "dashboardURL": only(str),
        "endTime": _read_time,
        "disrupted": only(int),
        "failed": only(int),
        "jobDeploymentStatus": only(str),
        "jobId": only(str),
        "jobStatus": only(str),
        "jobStatusCheckFailureStartTime": _read_time,
        "message": only(str),
        "observedGeneration": only(int),
        "rayClusterName": only(str),
        "rayClusterStatus": only(dict),
        "rayJobInfo": only(dict),
        "reason": only(str),
        "startTime": _read_time,
        "succeeded": only(int),
    }


RAYJOBS: Final = Resource("ray.io", "v1", "rayjobs", "RayJob", RayJob)


class SubmissionMode(Enum):
    """`spec.submissionMode`: how the job is submitted to Ray."""

    K8S_JOB = "K8sJobMode"
    HTTP = "HTTPMode"
    INTERACTIVE = "InteractiveMode"
    SIDECAR = "SidecarMode"


_MODES: Final = {mode.value: mode for mode in SubmissionMode}


class DeletionPolicy(Enum):
    """The objects that are deleted after a job has ended."""

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
    """`spec.deletionStrategy`: rules, or the two deprecated policies."""

    on_success: OutcomePolicy | None = None
    on_failure: OutcomePolicy | None = None
    deletion_rules: tuple[DeletionRule, ...] = ()


class JobSpec(View, frozen=True):
    """`spec` of a RayJob. Durations are seconds.

    Attributes:
        given_mode: `spec.submissionMode` as written; use `submission_mode`.
        ray_cluster_spec: plain data without nulls, copied to the RayCluster unchanged.
        disruption_backoff_limit: attempts lost to disruptions that `backoff_limit` does not count;
            not KubeRay's.
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
    disruption_backoff_limit: Int32 = 0
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
    def has_known_mode(self) -> bool:
        """False if a mode is set that does not exist, which validation refuses."""
        return not self.given_mode or self.given_mode in _MODES

    @property
    def submission_mode(self) -> SubmissionMode:
        """The mode, `K8sJobMode` if none is set that exists."""
        return _MODES.get(self.given_mode, SubmissionMode.K8S_JOB)

    @property
    def selected_cluster(self) -> str:
        """Name of the existing cluster that the job runs on; empty if the job creates its own."""
        return self.cluster_selector.get(CLUSTER_KEY, "")


CLUSTER_KEY: Final = "ray.io/cluster"
"""The only key of `spec.clusterSelector` that is used."""


def readable_job_spec(job: RayJob) -> JobSpec:
    """Return the typed specification without the fields that cannot be read."""
    return parse_readable(job.spec, JobSpec)
