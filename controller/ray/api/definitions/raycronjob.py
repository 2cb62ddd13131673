"""The schema of a RayCronJob: every field of KubeRay's, and those of `batch/v1` CronJob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.schemas.core_schemas import conditions
from controller.apimachinery.schemas.schema import (
    array,
    boolean,
    int32,
    int64,
    string,
    struct,
    time,
)
from controller.ray.api.definitions.rayjob import job_spec

if TYPE_CHECKING:
    from controller.apimachinery.schemas.schema import Schema


def cron_job_spec() -> Schema:
    """Return the schema of `spec`."""
    return struct(
        "When jobs are created, and which.",
        {
            "concurrencyPolicy": string(
                "The action when a job is due and an earlier one is not finished: Allow, the "
                "default, creates it; Forbid waits until the earlier one is finished; Replace "
                "deletes the earlier one first.",
                enum=["Allow", "Forbid", "Replace"],
            ),
            "failedJobsHistoryLimit": int32(
                "Number of failed RayJobs to keep, the latest; all if not given.", minimum=0
            ),
            "jobTemplate": {
                **job_spec(),
                "description": "Specification of the RayJobs, without metadata around it.",
            },
            "schedule": string(
                "Five fields (minute, hour, day of month, month, day of week), one of @yearly, "
                "@monthly, @weekly, @daily and @hourly, or @every with a duration of at least a "
                "minute, such as @every 1h30m."
            ),
            "startingDeadlineSeconds": int64(
                "Seconds by which a job may be late and still be created; no limit if not given.",
                minimum=0,
            ),
            "successfulJobsHistoryLimit": int32(
                "Number of successful RayJobs to keep, the latest; all if not given.", minimum=0
            ),
            "suspend": boolean("Whether to create no more jobs; existing ones continue."),
            "timeZone": string(
                "Time zone of the schedule, such as Asia/Taipei; that of the operator if not "
                "given.",
                minLength=1,
            ),
        },
        required=["jobTemplate", "schedule"],
    )


def cron_job_status() -> Schema:
    """Return the schema of `status`."""
    job = struct(
        "One RayJob.",
        {
            "apiVersion": string("ray.io/v1."),
            "kind": string("RayJob."),
            "name": string("Its name."),
            "namespace": string("Its namespace."),
            "uid": string("Its uid."),
        },
        atomic=True,
    )
    return struct(
        "The observed state of the schedule.",
        {
            "active": array(
                "RayJobs that are not finished, the oldest first, a hundred at most.",
                job,
                atomic=True,
            ),
            "conditions": conditions("the schedule"),
            "lastScheduleTime": time(
                "The latest time of the schedule for which a job was created."
            ),
            "lastSuccessfulTime": time("When a job last ended with success."),
            "observedGeneration": int64("Generation of the specification that this is about."),
        },
    )
