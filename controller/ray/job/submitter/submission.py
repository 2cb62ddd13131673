"""The operator's request to submit a RayJob in HTTPMode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api.fields.entrypoint_resources import read_entrypoint_resources
from controller.ray.api.fields.runtime_env import read_runtime_env
from controller.ray.dashboard import JobSubmission

if TYPE_CHECKING:
    from controller.ray.api.rayjob import JobSpec


def submission(spec: JobSpec, job_id: str) -> JobSubmission:
    """Return the request for a valid specification under this submission id."""
    return JobSubmission(
        entrypoint=spec.entrypoint,
        submission_id=job_id,
        runtime_env=read_runtime_env(spec.runtime_env_yaml),
        metadata=dict(spec.metadata),
        entrypoint_num_cpus=max(0.0, spec.entrypoint_num_cpus),
        entrypoint_num_gpus=max(0.0, spec.entrypoint_num_gpus),
        entrypoint_resources=read_entrypoint_resources(spec.entrypoint_resources),
    )
