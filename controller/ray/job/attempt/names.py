"""What the things of a RayJob are called: KubeRay's forms, computed instead of drawn by lot.

The same attempt gives the same names, so that a repeated creation or submission meets its own
object instead of making a second one, and a later attempt gives others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.names import suffix

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta

_SUFFIX_LENGTH: Final = 5
"""KubeRay's, and what the limit on names of RayJobs leaves room for."""


def cluster_name(job: ObjectMeta, attempt: str) -> str:
    """Name of the RayCluster that an attempt gets.

    Args:
        job: metadata of the RayJob.
        attempt: identity of the attempt, different for each one of this job.
    """
    return _child(job, "cluster", attempt)


def generated_submission_id(job: ObjectMeta, attempt: str) -> str:
    """The id under which an attempt is submitted to Ray where `spec.jobId` gives none."""
    return _child(job, "submission", attempt)


def submitter_name(job: ObjectMeta) -> str:
    """Name of the submitter Job; attempts share it, so the one before must be gone."""
    return job.name


def head_service_name(job: ObjectMeta) -> str:
    """Name of the service that leads to the head of the present attempt."""
    return f"{job.name}-head-svc"


def _child(job: ObjectMeta, what: str, attempt: str) -> str:
    return f"{job.name}-{suffix(job.uid, what, attempt)[:_SUFFIX_LENGTH]}"
