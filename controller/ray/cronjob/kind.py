"""The RayCronJob kind: which RayJobs are created and deleted, its settings, its registration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.metadata import owner_reference
from controller.apimachinery.object_schema import ObjectSchema
from controller.apimachinery.validation import Problem
from controller.ray.api import labels
from controller.ray.api.definitions import job_fields, unknown_field_finder
from controller.ray.api.raycronjob import (
    RAYCRONJOBS,
    ConcurrencyPolicy,
    RayCronJob,
    ValidCronJob,
    validate_cron_job,
)
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cronjob.observe import (
    CRON_JOB_INDEX,
    SCOPE,
    CronJobObservation,
    JobRun,
    RunPhase,
    cron_job_keys,
    job_name,
    observe_cron_job,
)
from controller.ray.cronjob.status import (
    Timing,
    active_runs,
    current_status,
    read_timing,
    unrecorded_ticks,
)
from controller.ray.settings import RaySettings
from controller.runtime.definitions import (
    DefinitionReader,
    DefinitionsReader,
    is_left_as_it_is,
    leave_as_it_is,
    remember,
)
from controller.runtime.kind import CacheReader, Kind, Owned
from controller.runtime.plan import (
    NOTHING,
    Create,
    Delete,
    Event,
    Failure,
    Plan,
    StatusPatch,
    Target,
    stages_of,
)


def plan_cron_job(seen: CronJobObservation, now: datetime) -> Plan:
    """Return the plan that creates a due RayJob and deletes those beyond the history limits."""
    if seen.cron.metadata.terminating:
        return NOTHING  # the garbage collector deletes its RayJobs
    return leave_as_it_is(seen.cron, seen.definition) or _plan_runs(seen, now)


def _plan_runs(seen: CronJobObservation, now: datetime) -> Plan:
    valid = seen.validated
    if isinstance(valid, Problem):
        return Plan(status=current_status(seen, None, now))
    timing = read_timing(seen, valid, now)
    plan = Plan(requeue_after=_requeue_after(valid, timing, now))
    if seen.has_pending_writes:
        return plan
    due = _tick_to_create(seen, valid, timing)
    if due is not None:
        replaced = active_runs(seen, valid, ConcurrencyPolicy.REPLACE)
        return replace(plan, stages=stages_of(map(_delete, replaced), [_create(seen, valid, due)]))
    surplus = stages_of(map(_delete, _surplus(seen, valid, now)))
    return replace(plan, stages=surplus, status=current_status(seen, timing, now))


def _tick_to_create(
    seen: CronJobObservation, valid: ValidCronJob, timing: Timing
) -> datetime | None:
    """Return the tick whose RayJob is to be created now; None if there is none."""
    if valid.spec.suspend or timing.due is None:
        return None
    if job_name(seen.cron.metadata.name, timing.due) in seen.name_conflicts:
        return None
    return None if active_runs(seen, valid, ConcurrencyPolicy.FORBID) else timing.due


def _requeue_after(valid: ValidCronJob, timing: Timing, now: datetime) -> float | None:
    """Return the seconds until the next tick or the starting deadline of the due tick."""
    moments = [moment for moment in (timing.next, timing.deadline) if moment is not None]
    return (min(moments) - now).total_seconds() if moments and not valid.spec.suspend else None


def _create(seen: CronJobObservation, valid: ValidCronJob, tick: datetime) -> Create:
    cron = seen.cron.metadata
    name = job_name(cron.name, tick)
    body: dict[str, Any] = {
        "apiVersion": RAYJOBS.api_version,
        "kind": RAYJOBS.kind,
        "metadata": {
            "name": name,
            "namespace": cron.namespace,
            "labels": {labels.CRON_JOB_NAME: cron.name},
            "annotations": {labels.CRON_JOB_TIMESTAMP: rfc3339(tick)},
            "ownerReferences": [owner_reference(RAYCRONJOBS, cron)],
        },
        "spec": valid.spec.job_template,
    }
    note = f"Created RayJob {name}, due at {rfc3339(tick)}"
    return Create(
        Target(RAYJOBS, cron.namespace, name, SCOPE),
        body,
        on_success=Event("Normal", "CreatedRayJob", "Create", note),
    )


def _delete(run: JobRun) -> Delete:
    meta = run.job.metadata
    note = f"Deleted RayJob {meta.name}"
    return Delete(
        Target(RAYJOBS, meta.namespace, meta.name, SCOPE),
        meta.uid,
        on_success=Event(
            "Normal", "DeletedRayJob", "Delete", note, aggregate_note="Deleted {count} RayJobs"
        ),
    )


def _surplus(seen: CronJobObservation, valid: ValidCronJob, now: datetime) -> Iterable[JobRun]:
    """Yield finished runs beyond the history limits, oldest first.

    Those stay for now whose tick could be served again.
    """
    unrecorded = unrecorded_ticks(seen, now)
    limits = {
        RunPhase.SUCCEEDED: valid.spec.successful_jobs_history_limit,
        RunPhase.FAILED: valid.spec.failed_jobs_history_limit,
    }
    present = [run for run in seen.runs if not run.job.metadata.terminating]
    for stage, limit in limits.items():
        finished = [run for run in present if run.phase is stage]
        if limit is not None:
            beyond = finished[: max(0, len(finished) - limit)]
            yield from (run for run in beyond if run.tick not in unrecorded)


# Fields on which the planner of RayCronJobs relies: without them RayJobs would be created twice.
#
# A RayCronJob without `lastScheduleTime` may run a tick again, and one without `suspend` runs
# although it must not. While a definition lacks such a field, no RayJob is created or deleted, and
# the RayCronJob is not written: a write would store it without the missing fields.

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


class RayCronJobKind(Kind["CronJobObservation"]):
    """Creates the RayJobs of RayCronJobs."""

    primary = RAYCRONJOBS
    owned = (
        Owned(
            RAYJOBS,
            indexes={CRON_JOB_INDEX: cron_job_keys},
            also_enqueues=cron_job_keys,
            optional=True,
        ),
    )
    creates = (RAYJOBS,)
    optional = True

    def __init__(self, settings: RaySettings | None = None) -> None:
        self._settings = settings or RaySettings()
        self._validated = SpecificationMemo(self._validate)
        self._unknown_fields_of = unknown_field_finder()
        self._read_definition = definitions_reader()

    def observe(self, key: str, reads: CacheReader) -> CronJobObservation | None:
        """Return everything that the plan depends on; None if the RayCronJob is gone."""
        return observe_cron_job(
            key, reads, self._validated, self._unknown_fields_of, self._read_definition
        )

    def problem(self, observation: CronJobObservation) -> Problem | None:
        """Return the problem of the specification, None if it is valid."""
        return observation.validated if isinstance(observation.validated, Problem) else None

    def plan(self, observation: CronJobObservation, now: datetime) -> Plan:
        """Return the plan for the RayCronJob."""
        return remember(plan_cron_job(observation, now), observation.definition)

    def status_after(
        self,
        observation: CronJobObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the plan's status, naming the first failed write."""
        seen, valid = observation, observation.validated
        is_untouched = is_left_as_it_is(seen.cron, seen.definition)
        if all(each.may_resolve for each in failures) or is_untouched or isinstance(valid, Problem):
            return plan.status
        return current_status(seen, read_timing(seen, valid, now), now, failures)

    def _validate(self, cron: RayCronJob) -> ValidCronJob | Problem:
        settings = self._settings
        return validate_cron_job(cron, settings.feature_gates, settings.local_zone)
