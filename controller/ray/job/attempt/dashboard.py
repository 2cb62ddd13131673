"""A RayJob's use of Ray's dashboard: to probe, submit or stop its job."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import time_of
from controller.ray.api.rayjob import SubmissionMode
from controller.ray.dashboard import (
    CommandDone,
    HeadCommand,
    JobProbe,
    NoSuchJob,
    ProbeSubscription,
    StopJob,
    SubmitJob,
)
from controller.ray.job.attempt.command_ids import (
    DELETED,
    LATE,
    stop_command_id,
    submit_command_id,
)
from controller.ray.job.collect_facts import (
    has_answered,
    info_of,
    is_end_stored,
    is_unsubmitted,
    may_still_run,
    result_of,
)
from controller.ray.job.states import State
from controller.ray.job.submitter.submission import submission

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.job.observation import JobObservation
    from controller.ray.job.settings import JobSettings
    from controller.ray.job.state_machine.deadlines import Deadlines

STOP_PATIENCE: Final = timedelta(seconds=10)
"""Time for which Ray is asked to stop a job before its cluster is deleted anyway."""

STOP_LIMIT: Final = timedelta(minutes=10)
"""Time after a failure for which Ray is asked to stop the job whose end is not known."""

_UNTIL_CONFIRMED: Final = timedelta(days=365)


def interests(seen: JobObservation, deadlines: Deadlines) -> tuple[ProbeSubscription, ...]:
    """Return the probe of the job, while it runs or until it is stopped."""
    if seen.head is None or not seen.job_id:
        return ()
    if seen.state is State.SUSPENDING or seen.job.metadata.terminating:
        wanted = may_still_run(seen) or seen.answer is not None  # keeps a result that was observed
    elif seen.state is State.FAILED:
        wanted = is_end_awaited(seen, deadlines)
    else:
        wanted = seen.state is State.RUNNING and result_of(seen) is None
    if not wanted:
        return ()
    return (ProbeSubscription(seen.head.dashboard, JobProbe(seen.job_id)),)


def is_end_awaited(seen: JobObservation, deadlines: Deadlines) -> bool:
    """Return whether Ray is still asked how the job of a failed attempt has ended."""
    if seen.state is not State.FAILED or is_end_stored(seen) or is_unsubmitted(seen):
        return False
    return not deadlines.waited(time_of(seen.status.get("endTime")), STOP_LIMIT)


def submit(seen: JobObservation, settings: JobSettings, now: datetime) -> tuple[HeadCommand, ...]:
    """Return HTTPMode's command to submit the job, once Ray reports that it does not know the job.

    It goes to the recorded head of the attempt, and never after Ray has known the job.
    """
    if seen.mode is not SubmissionMode.HTTP or seen.head is None or seen.submit_outcome is not None:
        return ()
    if seen.status.get("jobStatus") or result_of(seen) is not None:
        return ()
    if (
        seen.answer is None
        or not has_answered(seen)
        or not isinstance(seen.answer.value, NoSuchJob)
    ):
        return ()
    command = SubmitJob(
        submit_command_id(seen.job_id),
        now + settings.status_check_timeout,
        submission(seen.spec, seen.job_id),
    )
    return (HeadCommand(seen.head.dashboard, command),)


def stop(seen: JobObservation, until: datetime) -> tuple[HeadCommand, ...]:
    """Return the command that stops the job, while nobody knows that it has ended."""
    if seen.head is None or not may_still_run(seen):
        return ()
    occasion = DELETED if seen.job.metadata.terminating else ""
    if isinstance(seen.stop_outcome, CommandDone):  # Ray did not know the job that it knows now
        if info_of(seen) is None:
            return ()
        occasion = LATE
    command = StopJob(stop_command_id(seen.job_id, occasion), until, seen.job_id)
    return (HeadCommand(seen.head.dashboard, command),)


def stop_until(seen: JobObservation, deadlines: Deadlines) -> datetime | None:
    """Return the time until which Ray is asked to stop the job; None once that is over.

    A cluster that is about to be deleted ends the job anyway. A suspension that leaves the cluster
    is complete only with the job's end.
    """
    if seen.state is State.SUSPENDING:
        return deadlines.now + (STOP_PATIENCE if seen.owns_cluster else _UNTIL_CONFIRMED)
    ended = time_of(seen.status.get("endTime")) or deadlines.now
    return ended + STOP_LIMIT if is_end_awaited(seen, deadlines) else None
