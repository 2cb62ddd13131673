"""The status of a RayCronJob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import (
    OBSERVATION_IN_DOUBT,
    READY,
    ConditionSet,
    rfc3339,
    time_of,
)
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cronjob.runs import RunPhase
from controller.runtime.plan import StatusPatch
from controller.runtime.reconcile.definitions.unknown_fields import (
    set_fields_known,
    unknown_field_events,
)

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.api.rayjob import RayJob
    from controller.ray.cronjob.observation import CronJobObservation
    from controller.ray.cronjob.ready_condition import ReadyCondition
    from controller.ray.cronjob.timing import Timing

_MOST_ACTIVE: Final = 100


def cron_job_status(
    seen: CronJobObservation, verdict: ReadyCondition, now: datetime, timing: Timing | None = None
) -> StatusPatch:
    """Return the desired status; without `timing`, only what needs no schedule."""
    wanted: dict[str, Any] = {
        "observedGeneration": seen.cron.metadata.generation,
        "active": _active(seen) or None,
        "conditions": _conditions(seen, verdict, now),
    }
    if timing is not None and timing.last is not None:
        wanted["lastScheduleTime"] = rfc3339(timing.last)
    elif timing is not None and seen.status.get("lastScheduleTime"):
        wanted["lastScheduleTime"] = None  # a time that cannot be
    successful = _last_successful(seen)
    if successful is not None:
        wanted["lastSuccessfulTime"] = rfc3339(successful)
    events = unknown_field_events(seen.conditions, seen.unknown_fields)
    return StatusPatch(wanted, events=(*events, *verdict.events(seen)))


def _active(seen: CronJobObservation) -> list[dict[str, str]]:
    active = [run.job for run in seen.runs if run.phase is RunPhase.ACTIVE]
    return [_reference(job) for job in active[:_MOST_ACTIVE]]


def _reference(job: RayJob) -> dict[str, str]:
    return {
        "apiVersion": RAYJOBS.api_version,
        "kind": RAYJOBS.kind,
        "name": job.metadata.name,
        "namespace": job.metadata.namespace,
        "uid": job.metadata.uid,
    }


def _last_successful(seen: CronJobObservation) -> datetime | None:
    """Return the last successful end; the stored one may be of a deleted RayJob."""
    ends = [run.ended for run in seen.runs if run.phase is RunPhase.SUCCEEDED]
    noted = time_of(seen.status.get("lastSuccessfulTime"))
    return max((end for end in (noted, *ends) if end is not None), default=None)


def _conditions(
    seen: CronJobObservation, verdict: ReadyCondition, now: datetime
) -> list[dict[str, Any]]:
    conditions = ConditionSet(seen.conditions, seen.cron.metadata.generation, now)
    conditions.set(READY, verdict.status, verdict.reason, verdict.message)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    conditions.set_if(
        OBSERVATION_IN_DOUBT, "True", "CacheDisagrees", "; ".join(seen.consistency_warnings)
    )
    return conditions.as_list()
