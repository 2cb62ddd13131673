"""Detects changes of the fields that a job is submitted with, which reach the next attempt only.

The RayJob carries digests of them from just before its submission. A condition reports the change,
where KubeRay is silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping
from controller.ray.api import labels
from controller.ray.pods.hashes.field_digests import changed_fields, field_digests

if TYPE_CHECKING:
    from controller.ray.job.observation import JobObservation

_FIELDS: Final = (
    "clusterSelector",
    "entrypoint",
    "entrypointNumCpus",
    "entrypointNumGpus",
    "entrypointResources",
    "jobId",
    "metadata",
    "runtimeEnvYAML",
    "submissionMode",
    "submitterConfig",
    "submitterPodTemplate",
)


def submission_record(seen: JobObservation) -> str:
    """Return the submission id and what is submitted under it, as the RayJob carries them."""
    return f"{seen.job_id} {field_digests(_present(seen))}"


def is_recorded(seen: JobObservation) -> bool:
    """Return whether the RayJob carries what is submitted under the present id."""
    recorded = _recorded(seen)
    return bool(recorded) and recorded.partition(" ")[0] == seen.job_id


def changed_after_submission(seen: JobObservation) -> list[str]:
    """Return the fields that have changed since the present submission, sorted."""
    if not is_recorded(seen):
        return []
    return sorted(changed_fields(_recorded(seen).partition(" ")[2], _present(seen)))


def _recorded(seen: JobObservation) -> str:
    return (seen.job.metadata.annotations or {}).get(labels.SUBMITTED, "")


def _present(seen: JobObservation) -> dict[str, Any]:
    spec = mapping(seen.job.spec)
    return {name: spec[name] for name in _FIELDS if spec.get(name) is not None}
