"""RayCronJob: the cached view, and the typed reading of its specification.

As with RayCluster the cached object keeps plain data, and `parse_cron_job_spec` says what is odd.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, ClassVar, Final

import msgspec

from controller.apimachinery.custom_object import only, parse, read_conditions
from controller.kube.objects import View
from controller.kube.resources import Resource
from controller.ray.api.ray_object import RayObject

Natural = Annotated[int, msgspec.Meta(ge=0)]


class RayCronJob(RayObject, frozen=True, gc=True, weakref=True):
    """A RayCronJob as it is cached."""

    status_fields: ClassVar = {
        "active": only(list),
        "conditions": read_conditions,
        "lastScheduleTime": only(str),
        "lastSuccessfulTime": only(str),
        "observedGeneration": only(int),
    }


RAYCRONJOBS: Final = Resource("ray.io", "v1", "raycronjobs", "RayCronJob", RayCronJob)


class ConcurrencyPolicy(Enum):
    """`spec.concurrencyPolicy`: what happens at a tick while an earlier job is not finished."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class CronJobSpec(View, frozen=True):
    """`spec` of a RayCronJob.

    Attributes:
        schedule: read it with `parse_schedule`.
        job_template: `spec` of the RayJobs, plain data, nulls dropped.
        time_zone: name of the zone that the schedule is in; None for the operator's own.
        suspend: whether no jobs are made.
        concurrency_policy: see the enum.
        starting_deadline_seconds: how late a tick may be made up for; None for any time.
        successful_jobs_history_limit: successful jobs that are kept; None for all.
        failed_jobs_history_limit: failed jobs that are kept; None for all.
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
    """The typed specification, nulls dropped. Costs a copy: parse once per object.

    Raises:
        msgspec.ValidationError: a field has the wrong type or is missing.
    """
    return parse(cron.spec, CronJobSpec)
