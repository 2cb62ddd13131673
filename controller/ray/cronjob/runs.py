"""The RayJobs of a RayCronJob, each with its tick and phase."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import status_of
from controller.ray.api import labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.objects import KubeObject
    from controller.ray.api.rayjob import RayJob

CRON_JOB_INDEX: Final = "cron-job"
"""RayJobs by `namespace/name` of the RayCronJob that their name points to."""

_NAME: Final = re.compile(r"(?P<cron>.+)-(?P<minutes>[0-9]{7,9})")


class RunPhase(Enum):
    """The phase of a RayJob: active, succeeded or failed."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class JobRun:
    """One RayJob of a RayCronJob.

    Attributes:
        job: the object.
        tick: time at which it was due; None if it was created by hand.
        phase: see the enum.
    """

    job: RayJob
    tick: datetime | None
    phase: RunPhase

    @classmethod
    def of(cls, job: RayJob) -> JobRun:
        """Read a RayJob."""
        return cls(job, _tick(job), _phase(job))

    @property
    def age_order(self) -> tuple[datetime, str]:
        """Sort key: the oldest run first."""
        made = time_of(self.job.metadata.creation_timestamp)
        return self.tick or made or datetime.min.replace(tzinfo=UTC), self.job.metadata.name

    @property
    def ended(self) -> datetime | None:
        """The time when the RayJob ended; None if it has not."""
        return time_of(status_of(self.job).get("endTime"))


def job_name(cron_job: str, tick: datetime) -> str:
    """Return the name of a tick's RayJob; a repeated create finds the object of the first."""
    return f"{cron_job}-{int(tick.timestamp()) // 60}"


def cron_job_keys(job: KubeObject) -> Sequence[str]:
    """Index by `CRON_JOB_INDEX`; yield the RayCronJob that creates such names."""
    found = _NAME.fullmatch(job.metadata.name)
    return (f"{job.metadata.namespace}/{found['cron']}",) if found else ()


def _tick(job: RayJob) -> datetime | None:
    """Return the later of the time in the annotation, which users can edit, and in the name."""
    noted = time_of((job.metadata.annotations or {}).get(labels.CRON_JOB_TIMESTAMP))
    found = _NAME.fullmatch(job.metadata.name)
    named = datetime.fromtimestamp(60 * int(found["minutes"]), UTC) if found else None
    return max((tick for tick in (noted, named) if tick is not None), default=None)


def _phase(job: RayJob) -> RunPhase:
    """Return the phase; an invalid RayJob counts as failed: it does nothing until it is edited."""
    status = status_of(job)
    match status.get("jobDeploymentStatus"):
        case "Complete" if status.get("jobStatus") == "SUCCEEDED":
            return RunPhase.SUCCEEDED
        case "Complete" | "Failed" | "ValidationFailed":
            return RunPhase.FAILED
        case _:
            return RunPhase.ACTIVE
