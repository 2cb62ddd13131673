"""Fields on which the planner of RayCronJobs relies: without them RayJobs would be created twice.

A RayCronJob without `lastScheduleTime` may run a tick again, and one without `suspend` runs
although it must not. While a definition lacks such a field, no RayJob is created or deleted, and
the RayCronJob is not written: a write would store it without the missing fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.ray.api.definitions.relied_on import job_fields
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.runtime.reconcile.definitions.installed_definition import (
    DefinitionReader,
    DefinitionsReader,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.apimachinery.schemas.object_schema import ObjectSchema

_KUBERAYS: Final = ("spec.suspend", "spec.timeZone", "status.lastScheduleTime")
_OURS: Final = ("spec.concurrencyPolicy", "spec.startingDeadlineSeconds")
_OF_RUNS: Final = ("status.jobDeploymentStatus", "status.jobStatus")

_CONSEQUENCE: Final = "RayCronJobs are left as they are: no RayJob is created or deleted for them"


def definitions_reader() -> DefinitionsReader:
    """Return a reader of what the installed definitions of RayCronJobs and RayJobs lack."""
    return DefinitionsReader(
        DefinitionReader(RAYCRONJOBS, _relied_on, _CONSEQUENCE),
        DefinitionReader(RAYJOBS, _relied_on_in_jobs, _CONSEQUENCE),
    )


def _relied_on(schema: ObjectSchema) -> Iterator[str]:
    """Yield the fields; KubeRay's definition has neither conditions nor Manta's additions."""
    yield from _KUBERAYS
    if not schema.lacks("status.conditions"):
        yield from _OURS
    yield from job_fields(schema, "spec.jobTemplate")


def _relied_on_in_jobs(schema: ObjectSchema) -> Iterator[str]:
    yield from _OF_RUNS
    yield from job_fields(schema, "spec")
