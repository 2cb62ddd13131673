"""The `Ready` condition of a RayCronJob, and the event that reports its change.

`Ready` is True while RayJobs are created on schedule, and False when none will be created although
the schedule asks for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from controller.apimachinery.conditions import READY, find_condition, rfc3339, stored_message
from controller.ray.api.raycronjob import ConcurrencyPolicy
from controller.ray.cronjob.runs import RunPhase, job_name
from controller.ray.diagnosis.writes import failure_cause
from controller.runtime.plan import Event, verb_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from controller.apimachinery.problem import Problem
    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.ray.cronjob.observation import CronJobObservation
    from controller.ray.cronjob.runs import JobRun
    from controller.ray.cronjob.timing import Timing
    from controller.runtime.plan import Failure

_NAMED: Final = 3
"""Maximum names in one message; more are only counted."""


@dataclass(frozen=True, slots=True)
class ReadyCondition:
    """The condition `Ready`, and its event.

    Attributes:
        status: status of the condition.
        reason: reason of the condition and of the event.
        message: message of both.
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


def ready_condition(
    seen: CronJobObservation, valid: ValidCronJob, timing: Timing
) -> ReadyCondition:
    """Return the condition if all writes succeed."""
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


def invalid_condition(problem: Problem) -> ReadyCondition:
    """Return the condition of a RayCronJob that is not valid."""
    return ReadyCondition("False", problem.reason, str(problem), ("Warning", "Validate"))


def failed_write_condition(failure: Failure) -> ReadyCondition:
    """Return the condition after a failed write."""
    cause = failure_cause(failure, has_head=True)
    action = verb_of(failure.write).capitalize()
    return ReadyCondition(
        "False", cause.reason.name, cause.message, ("Warning", action), cause.event
    )


def active_runs(
    seen: CronJobObservation, valid: ValidCronJob, policy: ConcurrencyPolicy
) -> tuple[JobRun, ...]:
    """Return the active runs if `policy` is the concurrency policy, else none."""
    if valid.spec.concurrency_policy is not policy:
        return ()
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
