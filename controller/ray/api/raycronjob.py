"""RayCronJob: the cached view and its typed specification.

As in `raycluster`, the cached object keeps plain data, and `parse_cron_job_spec` raises the errors.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, ClassVar, Final

import msgspec

from controller.apimachinery.custom_object import only, parse, read_conditions
from controller.kube.objects import View
from controller.kube.resources import Resource
from controller.ray.api.names import RayObject

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
        suspend: whether no jobs are created.
        concurrency_policy: see the enum.
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


def parse_cron_job_spec(cron: RayCronJob) -> CronJobSpec:
    """Return the typed specification without nulls. It copies the data: parse each object once.

    Raises:
        msgspec.ValidationError: a field has the wrong type or is missing.
    """
    return parse(cron.spec, CronJobSpec)
