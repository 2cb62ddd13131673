"""Settings of the RayJob controller, read from KubeRay's environment variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.names import short_child_name
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import read_cluster_domain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import ObjectMeta
    from controller.ray.api.batch_schedulers import BatchScheduler


_FIVE_MINUTES: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of the RayJob controller.

    Attributes:
        status_check_timeout: time for which the dashboard may be unreachable before the job fails.
        transition_grace_period: time after the end of the Ray job for which the RayJob may stay
            `Running`.
        delete_finished_jobs: whether `shutdownAfterJobFinishes` deletes the RayJob itself instead
            of its cluster.
        login_shell: whether a login shell runs the submitter's script.
        cluster_domain: DNS domain of the cluster, `cluster.local`.
        head_cluster_ip_service: whether the job's head service gets a cluster IP by default.
        feature_gates: the enabled features.
        batch_scheduler: schedules all pods; None for the schedulers that their templates name.
    """

    status_check_timeout: timedelta = _FIVE_MINUTES
    transition_grace_period: timedelta = _FIVE_MINUTES
    delete_finished_jobs: bool = False
    login_shell: bool = False
    cluster_domain: str = "cluster.local"
    head_cluster_ip_service: bool = False
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    batch_scheduler: BatchScheduler | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> JobSettings:
        """Read KubeRay's environment variables; invalid numbers count as absent."""

        def is_true(name: str) -> bool:
            return environment.get(name, "").lower() == "true"

        return cls(
            status_check_timeout=_seconds(environment.get("RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS")),
            transition_grace_period=_seconds(
                environment.get("RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS")
            ),
            delete_finished_jobs=is_true("DELETE_RAYJOB_CR_AFTER_JOB_FINISHES"),
            login_shell=is_true("ENABLE_LOGIN_SHELL"),
            cluster_domain=read_cluster_domain(environment),
            head_cluster_ip_service=is_true("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE"),
        )


def _seconds(text: str | None) -> timedelta:
    """Read a positive number of seconds of at most nine digits; five minutes for other texts."""
    number = text.strip() if text else ""
    if not number.isascii() or not number.isdigit() or len(number) > 9 or not int(number):
        return _FIVE_MINUTES
    return timedelta(seconds=int(number))


# Names of a RayJob's children, in KubeRay's forms but computed instead of random.
#
# The same attempt always has the same names, so a repeated create or submission finds the object of
# the first. Other attempts have other names.


def generated_submission_id(job: ObjectMeta, attempt: str) -> str:
    """Return the submission id of an attempt for which `spec.jobId` sets none."""
    return short_child_name(job, "submission", attempt)


def submitter_name(job: ObjectMeta) -> str:
    """Return the name of the submitter Job of all attempts; the previous Job must be gone."""
    return job.name
