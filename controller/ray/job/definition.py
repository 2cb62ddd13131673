"""Fields on which a RayJob's planner relies: without them jobs would run again.

A status without the attempt looks like that of a job which has yet to run. A specification without
`suspend` may start, and one without a delay deletes the cluster at once. While the installed
definition lacks such a field, the operator neither acts on a RayJob nor writes it, not even its
conditions: the API server reads an object without the fields that its definition lacks, and any
write would store it so. An object that is not written is complete again when the definition is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.ray.api.definitions.relied_on import job_fields
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.job.states import State
from controller.runtime.plan import Event, Plan
from controller.runtime.reconcile.definitions import definition_guard
from controller.runtime.reconcile.definitions.installed_definition import (
    EVENT_INTERVAL,
    DefinitionReader,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.apimachinery.schemas.object_schema import ObjectSchema
    from controller.ray.job.observation import JobObservation

STATUS_FIELDS: Final = (
    "jobDeploymentStatus",
    "rayClusterName",
    "jobId",
    "jobStatus",
    "startTime",
    "endTime",
    "dashboardURL",
    "failed",
)
"""Fields of the status that distinguish an attempt from one that has not begun."""


def relied_on(schema: ObjectSchema) -> Iterator[str]:
    """Yield the fields on which the planner relies."""
    yield from (f"status.{name}" for name in STATUS_FIELDS)
    yield from job_fields(schema, "spec")


def definition_reader() -> DefinitionReader:
    """Return a reader of what the installed definition of RayJobs lacks."""
    return DefinitionReader(
        RAYJOBS,
        relied_on,
        "RayJobs are left as they are, so that none is started, ended or deleted because of it",
    )


def leave_as_it_is(seen: JobObservation) -> Plan | None:
    """Return the plan that only reports missing fields; None if the RayJob is complete."""
    untouched = definition_guard.leave_as_it_is(seen.job, seen.definition)
    lost = "" if untouched is not None else lost_fields(seen)
    if not lost:
        return untouched
    event = Event("Warning", "StatusIncomplete", "Reconcile", lost)
    return Plan(events=(event,), requeue_after=EVENT_INTERVAL)


def is_left_as_it_is(seen: JobObservation) -> bool:
    """Return whether the status stays unchanged."""
    return not seen.job.metadata.terminating and leave_as_it_is(seen) is not None


def lost_fields(seen: JobObservation) -> str:
    """Return the fields that the status must have had, with the remedy; empty if none is missing.

    A definition may drop fields before its schema is published, or another client may write the
    object meanwhile.
    """
    lost = _lost(seen)
    if not lost:
        return ""
    return (
        f"status.{lost} is missing, although an attempt was made: its job might run twice, or "
        "its cluster be deleted. A definition of RayJobs may have dropped it, or another client "
        "removed it. Put it back (kubectl edit --subresource=status), or create the RayJob anew"
    )


def _lost(seen: JobObservation) -> str:
    leftovers = bool(seen.stale_clusters) or seen.submitter_job is not None
    has_begun = bool(seen.status.get("startTime"))
    required = {
        "jobDeploymentStatus": seen.state is not State.NEW
        or not (seen.cluster_name or (leftovers and not has_begun)),
        "rayClusterName": bool(seen.cluster_name)
        or not (_is_under_way(seen) or (seen.state.terminal and leftovers)),
        "startTime": has_begun
        or not (
            _is_under_way(seen) or (seen.state is State.VALIDATION_FAILED and seen.cluster_name)
        ),
        "jobId": bool(seen.job_id) or seen.state is not State.RUNNING,
    }
    return next((name for name, is_there in required.items() if not is_there), "")


def _is_under_way(seen: JobObservation) -> bool:
    return seen.state.has_attempt or seen.state in {State.SUSPENDING, State.RETRYING}
