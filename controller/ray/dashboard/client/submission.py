"""A job to submit to Ray: the body of `POST /api/jobs/`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


PURPOSE: Final = "manta.dev/purpose"
"""Metadata of Manta's own jobs, for readers of Ray's list of jobs."""


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """One job as Ray's job API accepts it.

    Attributes:
        entrypoint: shell command of the driver.
        submission_id: chosen by the caller and stored before the first call.
        runtime_env: Ray's runtime environment; not printed, because it may hold secrets.
        metadata: labels of the job in Ray.
        entrypoint_num_cpus: CPUs reserved for the driver.
        entrypoint_num_gpus: GPUs reserved for the driver.
        entrypoint_resources: other resources reserved for the driver, by name.
    """

    entrypoint: str
    submission_id: str
    runtime_env: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    entrypoint_num_cpus: float = 0
    entrypoint_num_gpus: float = 0
    entrypoint_resources: Mapping[str, float] = field(default_factory=dict[str, float])

    def body(self) -> dict[str, Any]:
        """Return the body of the request, without zero and empty values, as KubeRay sends it."""
        values: dict[str, Any] = {
            "runtime_env": dict(self.runtime_env),
            "metadata": dict(self.metadata),
            "entrypoint_num_cpus": self.entrypoint_num_cpus,
            "entrypoint_num_gpus": self.entrypoint_num_gpus,
            "entrypoint_resources": dict(self.entrypoint_resources),
        }
        given = {name: value for name, value in values.items() if value}
        return {"entrypoint": self.entrypoint, "submission_id": self.submission_id, **given}
