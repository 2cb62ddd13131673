"""Gathers what a RayCronJob's plan depends on from the caches."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from controller.apimachinery.ownership import is_owned_by, ownership_text
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cronjob.observation import SCOPE, CronJobObservation
from controller.ray.cronjob.runs import CRON_JOB_INDEX, JobRun
from controller.runtime.kind import owned_by

if TYPE_CHECKING:
    from controller.apimachinery.custom_object import SpecificationMemo
    from controller.apimachinery.problem import Problem
    from controller.ray.api.raycronjob import RayCronJob
    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.runtime.kind import CacheReader
    from controller.runtime.reconcile.definitions.installed_definition import DefinitionsReader
    from controller.runtime.reconcile.definitions.unknown_fields import UnknownFieldFinder


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
    definition = read_definition(reads, cron)
    return CronJobObservation(
        cron,
        validate(cron),
        runs=tuple(sorted(map(JobRun.of, owned), key=attrgetter("age_order"))),
        name_conflicts=foreign
        | {name: f"cannot be read: {odd.reason}" for name, odd in unreadable.items()},
        has_pending_writes=SCOPE in reads.pending_scopes(meta.uid),
        unknown_fields=unknown_fields_of(cron, reads),
        definition=definition,
        consistency_warnings=reads.consistency_warnings(meta.uid),
    )
