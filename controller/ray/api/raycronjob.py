"""RayCronJob: the cached view, its typed specification, and its validation.

As in `raycluster`, the cached object keeps plain data.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from enum import Enum
from typing import Annotated, Any, ClassVar, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from controller.apimachinery.custom_object import only, read_conditions
from controller.apimachinery.schedule import InvalidSchedule, Schedule, parse_schedule
from controller.apimachinery.validation import Problem
from controller.kube.objects import ObjectMeta, View
from controller.kube.resources import Resource
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import MAX_CRON_JOB_NAME, RayObject
from controller.ray.api.rayjob import RayJob
from controller.ray.api.validation import (
    NO_TIME_ZONE,
    NameRule,
    read_spec,
    valid_or_problem,
)
from controller.ray.api.validation.job import validate_job

Natural = Annotated[int, msgspec.Meta(ge=0)]


class RayCronJob(RayObject, frozen=True, gc=True, weakref=True):
    """A cached RayCronJob."""

    status_fields: ClassVar = {
        "active": only(list),
        "conditions": read_conditions,
        "lastScheduleTime": only(str),
        "lastSuccessfulTime": only(str),
        "observedGeneration": only(int),
    }


RAYCRONJOBS: Final = Resource("ray.io", "v1", "raycronjobs", "RayCronJob", RayCronJob)


class ConcurrencyPolicy(Enum):
    """`spec.concurrencyPolicy`: the action at a tick while an earlier job is unfinished."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class CronJobSpec(View, frozen=True):
    """`spec` of a RayCronJob.

    Attributes:
        schedule: text for `parse_schedule`.
        job_template: `spec` of the RayJobs, plain data without nulls.
        time_zone: name of the schedule's time zone; None for the operator's own.
        starting_deadline_seconds: maximum delay of a missed tick's job; None for no limit.
        successful_jobs_history_limit: number of successful jobs to keep; None for all.
        failed_jobs_history_limit: number of failed jobs to keep; None for all.
    """

    schedule: str
    job_template: dict[str, Any]
    time_zone: str | None = None
    suspend: bool = False
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.ALLOW
    starting_deadline_seconds: Natural | None = None
    successful_jobs_history_limit: Natural | None = None
    failed_jobs_history_limit: Natural | None = None


# Validation: KubeRay's checks in its order, each with a remedy.

INVALID: Final = "InvalidRayCronJobSpec"
NAME_RULE: Final = NameRule(
    MAX_CRON_JOB_NAME,
    noun="it",
    reason=INVALID,
    children="RayJobs and their clusters",
    named_after="RayJobs",
)


class ValidCronJob(msgspec.Struct, frozen=True):
    """Values derived from a valid RayCronJob object."""

    spec: CronJobSpec
    schedule: Schedule
    zone: tzinfo


def validate_cron_job(
    cron: RayCronJob, gates: FeatureGates, local_zone: tzinfo
) -> ValidCronJob | Problem:
    """Return the derived values if the object is valid, else all of its problems as one."""
    spec = read_spec(cron, CronJobSpec)

    def problems(spec: CronJobSpec) -> Iterator[Problem]:
        parts = (_schedule(spec.schedule), _rest(spec.schedule), _zone(spec, local_zone))
        yield from (each for each in parts if isinstance(each, Problem))
        yield from filter(None, (_template_problem(cron, spec, gates),))

    valid = valid_or_problem(cron, NAME_RULE, spec, problems, INVALID)
    if isinstance(valid, Problem):
        return valid
    schedule, zone = _schedule(valid.schedule), _zone(valid, local_zone)
    assert not isinstance(schedule, Problem)
    assert not isinstance(zone, Problem)
    return ValidCronJob(valid, schedule, zone)


def _schedule(text: str) -> Schedule | Problem:
    if "TZ" in text:
        return Problem("spec.schedule", NO_TIME_ZONE, INVALID)
    try:
        return parse_schedule(text)
    except InvalidSchedule as error:
        return Problem("spec.schedule", str(error), INVALID)


def _rest(text: str) -> Schedule | Problem | None:
    """Return the schedule without the time zone that it names; None if it names none."""
    zone, _, rest = text.strip().partition(" ")
    return _schedule(rest) if zone.startswith(("TZ=", "CRON_TZ=")) else None


def _zone(spec: CronJobSpec, local_zone: tzinfo) -> tzinfo | Problem:
    name = spec.time_zone
    if name is None:
        return local_zone
    try:
        if name:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass  # an unknown name, one that leads out of the database, or one of its folders
    message = (
        f"{name!r} is not a time zone; give a name such as Asia/Taipei or Etc/UTC, or leave it "
        "out for the operator's own"
    )
    return Problem("spec.timeZone", message, INVALID)


def _template_problem(cron: RayCronJob, spec: CronJobSpec, gates: FeatureGates) -> Problem | None:
    """Return the problem of every RayJob that would be created."""
    name = f"{cron.metadata.name}-{'0' * 10}"
    meta = ObjectMeta(name=name, namespace=cron.metadata.namespace)
    found = validate_job(RayJob(metadata=meta, spec=spec.job_template), gates)
    return found.under("spec.jobTemplate", INVALID) if isinstance(found, Problem) else None
