"""Gathers what a RayCronJob's plan depends on from the caches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct, field

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import SpecificationMemo, status_of
from controller.apimachinery.metadata import is_owned_by, ownership_text
from controller.apimachinery.validation import Problem
from controller.kube.objects import KubeObject
from controller.ray.api import labels
from controller.ray.api.raycronjob import RAYCRONJOBS, RayCronJob, ValidCronJob
from controller.ray.api.rayjob import RAYJOBS, RayJob
from controller.runtime.definitions import (
    DefinitionsReader,
    InstalledDefinition,
    UnknownFieldFinder,
)
from controller.runtime.kind import CacheReader, owned_by

# The RayJobs of a RayCronJob, each with its tick and phase.

CRON_JOB_INDEX: Final = "cron-job"
"""RayJobs by `namespace/name` of the RayCronJob that their name points to."""

_NAME: Final = re.compile(r"(?P<cron>.+)-(?P<minutes>[0-9]{7,9})")


class RunPhase(Enum):
    """The phase of a RayJob: active, succeeded or failed."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class JobRun(Struct, frozen=True):
    """One RayJob of a RayCronJob.

    Attributes:
        tick: time at which it was due; None if it was created by hand.
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


# The input of a RayCronJob's plan: the RayCronJob and its RayJobs at one moment, as values.

SCOPE: Final = "rayjobs"
"""Scope of all writes to RayJobs: while one is of unknown outcome, none is created or deleted."""


class CronJobObservation(Struct, frozen=True):
    """A RayCronJob and its RayJobs.

    Attributes:
        validated: its specification and schedule, or the `Problem` that makes it invalid.
        runs: its RayJobs, including terminating ones, oldest first.
        name_conflicts: names its RayJobs could get that are not free; the values complete the
            sentence "there is a RayJob of this name that ...".
        has_pending_writes: whether the outcome of a write to a RayJob is unknown.
        definition: what the installed definitions of RayCronJobs and RayJobs lack.
    """

    cron: RayCronJob
    validated: ValidCronJob | Problem
    runs: tuple[JobRun, ...] = ()
    name_conflicts: Mapping[str, str] = field(default_factory=dict[str, str])
    has_pending_writes: bool = False
    unknown_fields: str = ""
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)
    consistency_warnings: tuple[str, ...] = ()

    @property
    def status(self) -> dict[str, Any]:
        """The present status."""
        return status_of(self.cron)

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The present conditions."""
        return self.status.get("conditions") or []


def observe_cron_job(
    key: str,
    reads: CacheReader,
    validate: SpecificationMemo[RayCronJob, ValidCronJob | Problem],
    unknown_fields_of: UnknownFieldFinder,
    read_definition: DefinitionsReader,
) -> CronJobObservation | None:
    """Read the RayCronJob `namespace/name` and its RayJobs; None if it does not exist."""
    cron = validate.present(key, reads.get(RAYCRONJOBS, key))
    if cron is None:
        return None
    meta = cron.metadata
    if not reads.serves(RAYJOBS):  # the API server reports that when a RayJob is created
        return CronJobObservation(cron, validate(cron))
    owned = owned_by(reads, RAYJOBS, meta)
    unreadable = reads.unreadable(RAYJOBS, meta.namespace)
    foreign = {
        job.metadata.name: ownership_text(job.metadata)
        for job in reads.by_index(RAYJOBS, CRON_JOB_INDEX, key)
        if not is_owned_by(job.metadata, meta.uid)
    }
    return CronJobObservation(
        cron,
        validate(cron),
        runs=tuple(sorted(map(JobRun.of, owned), key=attrgetter("age_order"))),
        name_conflicts=foreign
        | {name: f"cannot be read: {odd.reason}" for name, odd in unreadable.items()},
        has_pending_writes=SCOPE in reads.record(meta.uid).pending_scopes,
        unknown_fields=unknown_fields_of(cron, reads),
        definition=read_definition(reads, cron),
        consistency_warnings=reads.record(meta.uid).consistency_warnings,
    )
