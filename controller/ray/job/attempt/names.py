"""Names of a RayJob's children, in KubeRay's forms but computed instead of random.

The same attempt always has the same names, so a repeated create or submission finds the object
of the first. Other attempts have other names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.names import suffix

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta

_SUFFIX_LENGTH: Final = 5
"""As in KubeRay; the limit on names of RayJobs leaves room for no more."""


def cluster_name(job: ObjectMeta, attempt: str) -> str:
    """Name of an attempt's RayCluster.

    Args:
        job: metadata of the RayJob.
        attempt: id of the attempt, unique within this RayJob.
    """
    return _child(job, "cluster", attempt)


def generated_submission_id(job: ObjectMeta, attempt: str) -> str:
    """Submission id of an attempt for which `spec.jobId` sets none."""
    return _child(job, "submission", attempt)


def submitter_name(job: ObjectMeta) -> str:
    """Name of the submitter Job, the same for all attempts: the previous Job must be gone."""
    return job.name


def head_service_name(job: ObjectMeta) -> str:
    """Name of the service for the head of the present attempt."""
    return f"{job.name}-head-svc"


def _child(job: ObjectMeta, what: str, attempt: str) -> str:
    return f"{job.name}-{suffix(job.uid, what, attempt)[:_SUFFIX_LENGTH]}"
