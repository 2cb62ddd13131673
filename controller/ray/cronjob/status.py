"""The status of a RayCronJob."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from msgspec import Struct

from controller.apimachinery.conditions import (
    OBSERVATION_IN_DOUBT,
    READY,
    ConditionSet,
    find_condition,
    rfc3339,
    stored_message,
    time_of,
)
from controller.apimachinery.validation import Problem
from controller.ray.api.raycronjob import ConcurrencyPolicy, ValidCronJob
from controller.ray.api.rayjob import RAYJOBS, RayJob
from controller.ray.cronjob.observe import CronJobObservation, JobRun, RunPhase, job_name
from controller.ray.diagnosis.writes import failure_cause
from controller.runtime.definitions import set_fields_known, unknown_field_events
from controller.runtime.plan import Event, Failure, StatusPatch, verb_of

# The ticks of a schedule: the one that is due, and the next one.

_SKEW: Final = timedelta(minutes=10)
"""Difference that the clocks of two operators may have.

Ticks in the future by no more than this count. A later one comes from a clock that ran ahead, and
must not hold back the ticks until then.
"""

_JUMP: Final = timedelta(days=1)
"""A tick further in the future does not come from a clock and is ignored."""

_LONGEST_DEADLINE: Final = 100 * 365 * 86400
"""Maximum deadline in seconds; longer ones are cut to this."""


class Timing(Struct, frozen=True):
    """The ticks of a schedule around the present.

    Attributes:
        last: the latest tick with a RayJob; None if there is none.
        due: the latest tick without a RayJob, if its starting deadline has not passed; earlier
            ones are skipped.
        missed: the latest tick without a RayJob, if its starting deadline has passed.
        deadline: starting deadline of `due`; None for no limit.
        next: the first tick after now; None if there is none.
    """

    last: datetime | None
    due: datetime | None
    missed: datetime | None
    deadline: datetime | None
    next: datetime | None


def read_timing(seen: CronJobObservation, valid: ValidCronJob, now: datetime) -> Timing:
    """Compare the schedule with the existing RayJobs."""
    last = _last(seen, valid, now)
    start = last or time_of(seen.cron.metadata.creation_timestamp) or now
    late = valid.schedule.latest(start, now, valid.zone)
    following = valid.schedule.next_after(late or start, valid.zone)
    seconds = valid.spec.starting_deadline_seconds
    deadline = None
    if late is not None and seconds is not None:
        deadline = late + timedelta(seconds=min(seconds, _LONGEST_DEADLINE))
    if deadline is not None and deadline <= now:
        return Timing(last, None, late, None, following)
    return Timing(last, late, None, deadline, following)


def unrecorded_ticks(seen: CronJobObservation, now: datetime) -> frozenset[datetime]:
    """Return the ticks that could be served again if their RayJobs were deleted now.

    The status names neither them nor a later one. Where it cannot be written for long, the latest
    that is older than a day counts for those before it: no clock goes back by more.
    """
    noted = time_of(seen.status.get("lastScheduleTime"))
    if noted is not None and noted - now > _JUMP:
        noted = None
    present = (run.tick for run in seen.runs if not run.job.metadata.terminating)
    served = (tick for tick in present if tick is not None and tick - now <= _SKEW)
    ticks = frozenset(tick for tick in served if noted is None or tick > noted)
    old = max((tick for tick in ticks if now - tick >= _JUMP), default=None)
    return frozenset(tick for tick in ticks if old is None or tick >= old)


def _last(seen: CronJobObservation, valid: ValidCronJob, now: datetime) -> datetime | None:
    """Return the latest tick of status and RayJobs: the status may lag, RayJobs may be deleted.

    If the status names a tick of a clock that ran ahead, all ticks up to now count as served, so
    that none is served twice, and the status is set back to the latest of them.
    """
    noted = time_of(seen.status.get("lastScheduleTime"))
    ticks = [noted, *(run.tick for run in seen.runs)]
    last = max((tick for tick in ticks if tick is not None and tick - now <= _SKEW), default=None)
    if noted is None or not _SKEW < noted - now <= _JUMP:
        return last
    start = last or time_of(seen.cron.metadata.creation_timestamp) or now
    return valid.schedule.latest(start, now, valid.zone) or last


# The `Ready` condition of a RayCronJob, and the event that reports its change.
#
# `Ready` is True while RayJobs are created on schedule, and False when none will be created
# although the schedule asks for one.

_NAMED: Final = 3
"""Maximum names in one message; more are only counted."""


class ReadyCondition(Struct, frozen=True):
    """The condition `Ready`, and its event.

    Attributes:
        event: type and action of the event; None if there is none.
        event_reason: reason of the event, if it differs from the condition's.
    """

    status: Literal["True", "False"]
    reason: str
    message: str
    event: tuple[Literal["Normal", "Warning"], str] | None = None
    event_reason: str = ""

    def events(self, seen: CronJobObservation) -> tuple[Event, ...]:
        """Return the event, unless the stored condition has the same reason and message."""
        stored = find_condition(seen.conditions, READY) or {}
        if self.event is None or (stored.get("reason"), stored.get("message")) == (
            self.reason,
            stored_message(self.message),
        ):
            return ()
        kind, action = self.event
        return (Event(kind, self.event_reason or self.reason, action, self.message),)


def _ready_condition(
    seen: CronJobObservation, timing: Timing | None, failures: tuple[Failure, ...]
) -> ReadyCondition:
    """Return the condition; a specification that is not valid has no timing."""
    valid = seen.validated
    if isinstance(valid, Problem):
        return ReadyCondition("False", valid.reason, str(valid), ("Warning", "Validate"))
    assert timing is not None
    for failure in failures:
        if not failure.may_resolve:
            cause, action = failure_cause(failure, has_head=True), verb_of(failure.write)
            event = "Warning", action.capitalize()
            return ReadyCondition("False", cause.reason.name, cause.message, event, cause.event)
    if valid.spec.suspend:
        message = "no RayJobs are created because spec.suspend is true"
        return ReadyCondition("False", "SuspendedRayCronJob", message, ("Normal", "Suspend"))
    blocked = _blocked_condition(seen, valid, timing)
    if blocked is not None:
        return blocked
    if timing.next is None:
        message = (
            f"spec.schedule {valid.spec.schedule!r} names no date that exists, so no RayJob "
            "will ever be created: correct it"
        )
        return ReadyCondition("False", "NeverDue", message, ("Warning", "Validate"))
    return ReadyCondition("True", "Scheduled", f"the next RayJob is due at {rfc3339(timing.next)}")


def active_runs(
    seen: CronJobObservation, valid: ValidCronJob, policy: ConcurrencyPolicy
) -> tuple[JobRun, ...]:
    """Return the active runs if `policy` is the concurrency policy, else none."""
    return _active(seen) if valid.spec.concurrency_policy is policy else ()


def _active(seen: CronJobObservation) -> tuple[JobRun, ...]:
    return tuple(run for run in seen.runs if run.phase is RunPhase.ACTIVE)


def _blocked_condition(
    seen: CronJobObservation, valid: ValidCronJob, timing: Timing
) -> ReadyCondition | None:
    """Return the condition if the latest tick has no RayJob, else None."""
    if timing.missed is not None:
        return _missed_condition(timing.missed, timing)
    if timing.due is None:
        return None
    name = job_name(seen.cron.metadata.name, timing.due)
    if name in seen.name_conflicts:
        message = (
            f"RayJob {name} cannot be created, because there is one of this name that "
            f"{seen.name_conflicts[name]}: delete it, or this run is skipped"
        )
        return ReadyCondition("False", "NameTaken", message, ("Warning", "Create"))
    blocking = active_runs(seen, valid, ConcurrencyPolicy.FORBID)
    if not blocking:
        return None
    message = (
        f"RayJob {name}, due at {rfc3339(timing.due)}, waits for the end of {_names(blocking)}, "
        "because spec.concurrencyPolicy is Forbid"
    )
    return ReadyCondition("True", "JobAlreadyActive", message, ("Normal", "Reconcile"))


def _missed_condition(tick: datetime, timing: Timing) -> ReadyCondition:
    message = f"no RayJob was created for {rfc3339(tick)}: its starting deadline had passed"
    if timing.next is not None:
        message += f"; the next one is due at {rfc3339(timing.next)}"
    return ReadyCondition("True", "MissSchedule", message, ("Warning", "Reconcile"))


def _names(runs: Sequence[JobRun]) -> str:
    names = [run.job.metadata.name for run in runs[:_NAMED]]
    more = len(runs) - len(names)
    return f"RayJob {', '.join(names)}" + (f" and {more} more" if more else "")


_MOST_ACTIVE: Final = 100


def current_status(
    seen: CronJobObservation,
    timing: Timing | None,
    now: datetime,
    failures: tuple[Failure, ...] = (),
) -> StatusPatch:
    """Return the desired status; without `timing`, only what needs no schedule."""
    verdict = _ready_condition(seen, timing, failures)
    wanted: dict[str, Any] = {
        "observedGeneration": seen.cron.metadata.generation,
        "active": [_reference(run.job) for run in _active(seen)[:_MOST_ACTIVE]] or None,
        "conditions": _conditions(seen, verdict, now),
    }
    if timing is not None and timing.last is not None:
        wanted["lastScheduleTime"] = rfc3339(timing.last)
    elif timing is not None and seen.status.get("lastScheduleTime"):
        wanted["lastScheduleTime"] = None  # a time that cannot be
    successful = _last_successful(seen)
    if successful is not None:
        wanted["lastSuccessfulTime"] = rfc3339(successful)
    events = unknown_field_events(seen.conditions, seen.unknown_fields)
    return StatusPatch(wanted, events=(*events, *verdict.events(seen)))


def _reference(job: RayJob) -> dict[str, str]:
    return {
        "apiVersion": RAYJOBS.api_version,
        "kind": RAYJOBS.kind,
        "name": job.metadata.name,
        "namespace": job.metadata.namespace,
        "uid": job.metadata.uid,
    }


def _last_successful(seen: CronJobObservation) -> datetime | None:
    """Return the last successful end; the stored one may be of a deleted RayJob."""
    ends = [run.ended for run in seen.runs if run.phase is RunPhase.SUCCEEDED]
    noted = time_of(seen.status.get("lastSuccessfulTime"))
    return max((end for end in (noted, *ends) if end is not None), default=None)


def _conditions(
    seen: CronJobObservation, verdict: ReadyCondition, now: datetime
) -> list[dict[str, Any]]:
    conditions = ConditionSet(seen.conditions, seen.cron.metadata.generation, now)
    conditions.set(READY, verdict.status, verdict.reason, verdict.message)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    conditions.set_if(
        OBSERVATION_IN_DOUBT, "True", "CacheDisagrees", "; ".join(seen.consistency_warnings)
    )
    return conditions.as_list()
