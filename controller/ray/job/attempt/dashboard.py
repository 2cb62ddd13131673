"""A RayJob's use of Ray's dashboard: to probe, submit or stop its job."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.ray.api.rayjob import SubmissionMode
from controller.ray.dashboard import (
    HeadCommand,
    JobProbe,
    NoSuchJob,
    ProbeSubscription,
    StopJob,
    SubmitJob,
)
from controller.ray.job.attempt.command_ids import stop_command_id, submit_command_id
from controller.ray.job.collect_facts import has_answered, must_stop, result_of
from controller.ray.job.states import State
from controller.ray.job.submitter.submission import submission

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.job.observation import JobObservation
    from controller.ray.job.settings import JobSettings

STOP_PATIENCE: Final = timedelta(seconds=10)
"""Time for which Ray is asked to stop a job before its cluster is deleted anyway."""

_STOPPING: Final = frozenset({State.SUSPENDING})


def interests(seen: JobObservation) -> tuple[ProbeSubscription, ...]:
    """Return the probe of the job, while it runs or until it is stopped."""
    if seen.head is None or not seen.job_id:
        return ()
    if seen.state in _STOPPING or seen.job.metadata.terminating:
        wanted = must_stop(seen) or seen.answer is not None  # keeps a result that was observed
    else:
        wanted = seen.state is State.RUNNING and result_of(seen) is None
    if not wanted:
        return ()
    return (ProbeSubscription(seen.head.dashboard, JobProbe(seen.job_id)),)


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
        submission(seen.valid_spec, seen.job_id),
    )
    return (HeadCommand(seen.head.dashboard, command),)


def stop(seen: JobObservation, now: datetime) -> tuple[HeadCommand, ...]:
    """Return the command that stops the job, if it can be stopped and no stop has ended."""
    if seen.head is None or seen.stop_outcome is not None or not must_stop(seen):
        return ()
    command = StopJob(stop_command_id(seen.job_id), now + STOP_PATIENCE, seen.job_id)
    return (HeadCommand(seen.head.dashboard, command),)
