"""What there is to say about a RayCronJob: its condition `Ready`, and the event that goes with it.

`Ready` is True while RayJobs are made at the times of the schedule, and False when none will be
made although the schedule says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.timestamps import rfc3339
from controller.ray.api.raycronjob import ConcurrencyPolicy
from controller.ray.cronjob.runs import Stage, job_name
from controller.runtime.reconcile.plan import Create, Event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from controller.apimachinery.problem import Problem
    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.ray.cronjob.observe import Observation
    from controller.ray.cronjob.runs import Run
    from controller.ray.cronjob.timing import Timing
    from controller.runtime.reconcile.plan import Failure

READY: Final = "Ready"
FAILED_TO_CREATE: Final = "FailedToCreateRayJob"
FAILED_TO_DELETE: Final = "FailedToDeleteRayJob"
_NAMED: Final = 3
"""Names in one sentence; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A condition `Ready`, and how its news is told.

    Attributes:
        status: of the condition.
        reason: of the condition, and of the event.
        message: of both.
        event: type and action of the event; None if there is none.
    """

    status: Literal["True", "False"]
    reason: str
    message: str
    event: tuple[Literal["Normal", "Warning"], str] | None = None

    def news(self, seen: Observation) -> tuple[Event, ...]:
        """The event, unless the stored condition says the same already."""
        told = find_condition(seen.conditions, READY) or {}
        if self.event is None or (told.get("reason"), told.get("message")) == (
            self.reason,
            self.message,
        ):
            return ()
        kind, action = self.event
        return (Event(kind, self.reason, action, self.message),)


def judge(seen: Observation, design: ValidCronJob, timing: Timing) -> Verdict:
    """What is to be said as long as every write succeeds."""
    if design.spec.suspend:
        message = "no RayJobs are made because spec.suspend is true"
        return Verdict("False", "SuspendedRayCronJob", message, ("Normal", "Suspend"))
    hindrance = _hindrance(seen, design, timing)
    if hindrance is not None:
        return hindrance
    if timing.next is None:
        message = (
            f"spec.schedule {design.spec.schedule!r} names no date that exists, so that no RayJob "
            "will ever be made: correct it"
        )
        return Verdict("False", "NeverDue", message, ("Warning", "Validate"))
    return Verdict("True", "Scheduled", f"the next RayJob is due at {rfc3339(timing.next)}")


def refused(problem: Problem) -> Verdict:
    """What is said about a RayCronJob that is not valid."""
    return Verdict("False", problem.reason, str(problem), ("Warning", "Validate"))


def failed(failures: Sequence[Failure]) -> Verdict:
    """What is said when a write did not succeed: the first of them."""
    first = failures[0]
    name = first.write.target.name
    if isinstance(first.write, Create):
        message = f"RayJob {name} cannot be made: {first.reason}: {first.message}"
        return Verdict("False", FAILED_TO_CREATE, message, ("Warning", "Create"))
    message = f"RayJob {name} cannot be deleted: {first.reason}: {first.message}"
    return Verdict("False", FAILED_TO_DELETE, message, ("Warning", "Delete"))


def active_runs(
    seen: Observation, design: ValidCronJob, policy: ConcurrencyPolicy
) -> tuple[Run, ...]:
    """The runs that are not finished, if this is the policy about them."""
    if design.spec.concurrency_policy is not policy:
        return ()
    return tuple(run for run in seen.runs if run.stage is Stage.ACTIVE)


def _hindrance(seen: Observation, design: ValidCronJob, timing: Timing) -> Verdict | None:
    """Why there is no RayJob of the latest tick."""
    if timing.missed is not None:
        return _missed(timing.missed, timing)
    if timing.due is None:
        return None
    name = job_name(seen.cron.metadata.name, timing.due)
    if name in seen.taken:
        message = (
            f"RayJob {name} cannot be made, because there is one of this name that "
            f"{seen.taken[name]}: delete it, or this run is left out"
        )
        return Verdict("False", "NameTaken", message, ("Warning", "Create"))
    blocking = active_runs(seen, design, ConcurrencyPolicy.FORBID)
    if not blocking:
        return None
    message = (
        f"RayJob {name}, due at {rfc3339(timing.due)}, waits for the end of {_names(blocking)}, "
        "because spec.concurrencyPolicy is Forbid"
    )
    return Verdict("True", "JobAlreadyActive", message, ("Normal", "Reconcile"))


def _missed(tick: datetime, timing: Timing) -> Verdict:
    message = f"no RayJob was made for {rfc3339(tick)}: its starting deadline had passed"
    if timing.next is not None:
        message += f"; the next one is due at {rfc3339(timing.next)}"
    return Verdict("True", "MissSchedule", message, ("Warning", "Reconcile"))


def _names(runs: Sequence[Run]) -> str:
    names = [run.job.metadata.name for run in runs[:_NAMED]]
    more = len(runs) - len(names)
    return f"RayJob {', '.join(names)}" + (f" and {more} more" if more else "")
