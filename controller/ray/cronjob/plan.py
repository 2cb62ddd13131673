"""Plans the next writes of a RayCronJob; `plan_cron_job` is the entry.

The plan is a pure function of the observation and the time. A new RayJob enters the status when it
is observed, not when its create is sent. Until then its name, which follows from the tick, keeps
it from being created twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.ownership import owner_reference
from controller.apimachinery.problem import Problem
from controller.ray.api import labels
from controller.ray.api.raycronjob import RAYCRONJOBS, ConcurrencyPolicy
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cronjob.observe import SCOPE, RunPhase, job_name
from controller.ray.cronjob.status import (
    active_runs,
    cron_job_status,
    failed_write_condition,
    invalid_condition,
    read_timing,
    ready_condition,
    unrecorded_ticks,
)
from controller.runtime.plan import NOTHING, Create, Delete, Event, Plan, Target
from controller.runtime.reconcile.definitions import is_left_as_it_is, leave_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.ray.cronjob.observe import CronJobObservation, JobRun
    from controller.ray.cronjob.status import Timing
    from controller.runtime.plan import Failure, StatusPatch


def plan_cron_job(seen: CronJobObservation, now: datetime) -> Plan:
    """Return the plan that creates a due RayJob and deletes those beyond the history limits."""
    if seen.cron.metadata.terminating:
        return NOTHING  # the garbage collector deletes its RayJobs
    return leave_as_it_is(seen.cron, seen.definition) or _plan_runs(seen, now)


def _plan_runs(seen: CronJobObservation, now: datetime) -> Plan:
    valid = seen.validated
    if isinstance(valid, Problem):
        return Plan(status=cron_job_status(seen, invalid_condition(valid), now))
    timing = read_timing(seen, valid, now)
    if seen.has_pending_writes:
        return Plan(requeue_after=_requeue_after(valid, timing, now))
    due = _tick_to_create(seen, valid, timing)
    if due is not None:
        replaced = [_delete(run) for run in active_runs(seen, valid, ConcurrencyPolicy.REPLACE)]
        stages = tuple(filter(None, (tuple(replaced), (_create(seen, valid, due),))))
        return Plan(stages=stages, requeue_after=_requeue_after(valid, timing, now))
    status = cron_job_status(seen, ready_condition(seen, valid, timing), now, timing)
    surplus = tuple(_delete(run) for run in _surplus(seen, valid, now))
    return Plan(
        stages=(surplus,) if surplus else (),
        status=status,
        requeue_after=_requeue_after(valid, timing, now),
    )


def status_after_failures(
    seen: CronJobObservation, plan: Plan, failures: Sequence[Failure], now: datetime
) -> StatusPatch | None:
    """Return the plan's status, naming the first failed write."""
    failed = next((failure for failure in failures if not failure.may_resolve), None)
    if is_left_as_it_is(seen.cron, seen.definition):
        return plan.status
    if isinstance(seen.validated, Problem) or failed is None:
        return plan.status
    return cron_job_status(
        seen, failed_write_condition(failed), now, read_timing(seen, seen.validated, now)
    )


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
    if valid.spec.suspend:
        return None
    moments = [moment for moment in (timing.next, timing.deadline) if moment is not None]
    return (min(moments) - now).total_seconds() if moments else None


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
