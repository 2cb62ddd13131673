"""Names of a RayJob's children, in KubeRay's forms but computed instead of random.

The same attempt always has the same names, so a repeated create or submission finds the object
of the first. Other attempts have other names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.names import short_child_name

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta


def generated_submission_id(job: ObjectMeta, attempt: str) -> str:
    """Return the submission id of an attempt for which `spec.jobId` sets none."""
    return short_child_name(job, "submission", attempt)


def submitter_name(job: ObjectMeta) -> str:
    """Return the name of the submitter Job of all attempts; the previous Job must be gone."""
    return job.name
