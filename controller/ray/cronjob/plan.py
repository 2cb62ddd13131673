"""What to do about a RayCronJob: read `plan_cron_job` from top to bottom.

Pure: the plan follows from the observation and the time alone. That a RayJob was made is written
into the status when it is seen, and not when it was asked for; its name, which follows from the
tick, keeps it from being made twice meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.ownership import owner_reference
from controller.apimachinery.problem import Problem
from controller.apimachinery.timestamps import rfc3339
from controller.ray.api import labels
from controller.ray.api.raycronjob import RAYCRONJOBS, ConcurrencyPolicy
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cronjob.observe import SCOPE
from controller.ray.cronjob.runs import Stage, job_name
from controller.ray.cronjob.status import cron_job_status
from controller.ray.cronjob.timing import read_timing
from controller.ray.cronjob.verdict import active_runs, failed, judge, refused
from controller.runtime.reconcile.plan import NOTHING, Create, Delete, Event, Plan, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.ray.cronjob.observe import Observation
    from controller.ray.cronjob.runs import Run
    from controller.ray.cronjob.timing import Timing
    from controller.runtime.reconcile.plan import Failure, StatusPatch


def plan_cron_job(seen: Observation, now: datetime) -> Plan:
    """The plan that makes what is due and deletes what is too old."""
    if seen.cron.metadata.terminating:
        return NOTHING  # the garbage collector follows the owner references
    design = seen.design
    if isinstance(design, Problem):
        return Plan(status=cron_job_status(seen, refused(design), now))
    timing = read_timing(seen, design, now)
    if seen.unsettled:
        return Plan(wake_after=_wake_after(design, timing, now))
    due = _may_be_made(seen, design, timing)
    if due is not None:
        replaced = [_delete(run) for run in active_runs(seen, design, ConcurrencyPolicy.REPLACE)]
        making = tuple(filter(None, (tuple(replaced), (_create(seen, design, due),))))
        return Plan(stages=making, wake_after=_wake_after(design, timing, now))
    status = cron_job_status(seen, judge(seen, design, timing), now, timing)
    surplus = tuple(_delete(run) for run in _surplus(seen, design))
    return Plan(
        stages=(surplus,) if surplus else (),
        status=status,
        wake_after=_wake_after(design, timing, now),
    )


def status_after_failures(
    seen: Observation, plan: Plan, failures: Sequence[Failure], now: datetime
) -> StatusPatch | None:
    """The plan's status, naming the first of the writes that did not succeed."""
    if isinstance(seen.design, Problem) or not failures:
        return plan.status
    return cron_job_status(seen, failed(failures), now, read_timing(seen, seen.design, now))


def _may_be_made(seen: Observation, design: ValidCronJob, timing: Timing) -> datetime | None:
    """The tick that a RayJob is to be made for now."""
    if design.spec.suspend or timing.due is None:
        return None
    if job_name(seen.cron.metadata.name, timing.due) in seen.taken:
        return None
    return None if active_runs(seen, design, ConcurrencyPolicy.FORBID) else timing.due


def _wake_after(design: ValidCronJob, timing: Timing, now: datetime) -> float | None:
    """Seconds until the next tick, or until what is due may not be made any more."""
    if design.spec.suspend:
        return None
    moments = [moment for moment in (timing.next, timing.deadline) if moment is not None]
    return (min(moments) - now).total_seconds() if moments else None


def _create(seen: Observation, design: ValidCronJob, tick: datetime) -> Create:
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
        "spec": design.spec.job_template,
    }
    note = f"Created RayJob {name}, due at {rfc3339(tick)}"
    return Create(
        Target(RAYJOBS, cron.namespace, name, SCOPE),
        body,
        on_success=Event("Normal", "CreatedRayJob", "Create", note),
    )


def _delete(run: Run) -> Delete:
    meta = run.job.metadata
    note = f"Deleted RayJob {meta.name}"
    return Delete(
        Target(RAYJOBS, meta.namespace, meta.name, SCOPE),
        meta.uid,
        on_success=Event(
            "Normal", "DeletedRayJob", "Delete", note, of_many="Deleted {count} RayJobs"
        ),
    )


def _surplus(seen: Observation, design: ValidCronJob) -> Iterable[Run]:
    """Finished runs beyond the limits of history, the oldest first."""
    limits = {
        Stage.SUCCEEDED: design.spec.successful_jobs_history_limit,
        Stage.FAILED: design.spec.failed_jobs_history_limit,
    }
    present = [run for run in seen.runs if not run.job.metadata.terminating]
    for stage, limit in limits.items():
        finished = [run for run in present if run.stage is stage]
        if limit is not None:
            yield from finished[: max(0, len(finished) - limit)]
