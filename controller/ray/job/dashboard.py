"""What a RayJob asks of Ray: probes, the submission, the stop and whether it is confirmed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from controller.apimachinery.conditions import find_condition, rfc3339, time_of
from controller.ray.api.rayjob import SubmissionMode
from controller.ray.dashboard.commands import CommandDone, HeadCommand, StopJob, SubmitJob
from controller.ray.dashboard.probes import JobProbe, ProbeSubscription
from controller.ray.dashboard.responses import NoSuchJob
from controller.ray.job.facts import Deadlines, State
from controller.ray.job.observation import JobObservation
from controller.ray.job.submitter import submission

# Stable ids of commands to Ray, so that repeating a command has no second effect.


def submit_command_id(job_id: str) -> str:
    """Return the id of the command that submits this job."""
    return f"submit/{job_id}"


def stop_command_id(job_id: str, occasion: str = "") -> str:
    """Return the id of the command that stops this job, on one of `STOP_OCCASIONS`."""
    return f"stop/{job_id}{occasion}"


LATE: Final = "/late"
DELETED: Final = "/deleted"
STOP_OCCASIONS: Final = (DELETED, LATE, "")
"""The occasions on which a job is stopped: the RayJob is deleted, Ray knows a job that it did not
know when it was asked to stop it, and the first of all. No stop waits for the pauses of another.
"""


# A RayJob's use of Ray's dashboard: to probe, submit or stop its job.

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
        wanted = seen.may_still_run or seen.answer is not None  # keeps a result that was observed
    elif seen.state is State.FAILED:
        wanted = is_end_awaited(seen, deadlines)
    else:
        wanted = seen.state is State.RUNNING and seen.result is None
    if not wanted:
        return ()
    return (ProbeSubscription(seen.head.dashboard, JobProbe(seen.job_id)),)


def is_end_awaited(seen: JobObservation, deadlines: Deadlines) -> bool:
    """Return whether Ray is still asked how the job of a failed attempt has ended."""
    if seen.state is not State.FAILED or seen.stored_result is not None or seen.is_unsubmitted:
        return False
    return not deadlines.waited(time_of(seen.status.get("endTime")), STOP_LIMIT)


def submit(seen: JobObservation, now: datetime) -> tuple[HeadCommand, ...]:
    """Return HTTPMode's command to submit the job, once Ray reports that it does not know the job.

    It goes to the recorded head of the attempt, and never after Ray has known the job.
    """
    if seen.mode is not SubmissionMode.HTTP or seen.head is None or seen.submit_outcome is not None:
        return ()
    if seen.status.get("jobStatus") or seen.result is not None:
        return ()
    if seen.answer is None or not seen.has_answered or not isinstance(seen.answer.value, NoSuchJob):
        return ()
    command = SubmitJob(
        submit_command_id(seen.job_id),
        now + seen.settings.status_check_timeout,
        submission(seen.spec, seen.job_id),
    )
    return (HeadCommand(seen.head.dashboard, command),)


def stop(seen: JobObservation, until: datetime | None) -> tuple[HeadCommand, ...]:
    """Return the command that stops the job, while nobody knows that it has ended."""
    if until is None or seen.head is None or not seen.may_still_run:
        return ()
    occasion = DELETED if seen.job.metadata.terminating else ""
    if isinstance(seen.stop_outcome, CommandDone):  # Ray did not know the job that it knows now
        if seen.info is None:
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


# What is said about a job that nobody follows any more and that may still run in Ray.
#
# A request to stop it that was sent, accepted or given up is no stop: only Ray's word ends the
# condition `JobStopped`.

JOB_STOPPED: Final = "JobStopped"
STOP_NOT_CONFIRMED: Final = "StopNotConfirmed"


def unconfirmed_stop(seen: JobObservation, deadlines: Deadlines) -> str:
    """Return the message of the condition; empty if the job has ended, or is still followed."""
    if not seen.may_still_run:
        return ""
    if seen.state is State.SUSPENDING and not seen.owns_cluster:
        return f"{stop_text(seen)}; the suspension waits for it; {stop_remedy(seen)}"
    stored = find_condition(seen.status.get("conditions", ()), JOB_STOPPED)
    if seen.state is not State.FAILED or stored is None:
        return ""
    return failed_stop(seen, deadlines)


def failed_stop(seen: JobObservation, deadlines: Deadlines) -> str:
    """Return the message about the job of an attempt that failed for good."""
    ended = time_of(seen.status.get("endTime")) if seen.state is State.FAILED else None
    until = rfc3339((ended or deadlines.now) + STOP_LIMIT)
    if deadlines.waited(ended, STOP_LIMIT):
        return f"{stop_text(seen)}; the operator gave up asking at {until}: {stop_remedy(seen)}"
    outlook = f"the operator asks until {until}; if it does not end, {stop_remedy(seen)}"
    return f"{stop_text(seen)}; {outlook}"


def stop_text(seen: JobObservation) -> str:
    """Return what is known about the job."""
    info, answer = seen.info, seen.answer
    said = ""
    if answer is not None and answer.failing_since is not None:
        said = f" (no answer since {rfc3339(answer.failing_since)}: {answer.error})"
    elif info is not None:
        said = f" (Ray reports {info.status.value})"
    return (
        f"job {seen.job_id} may still run on cluster {seen.cluster_name}: Ray has not confirmed "
        f"that it is stopped{said}"
    )


def stop_remedy(seen: JobObservation) -> str:
    """Return how a person ends the job."""
    address = seen.status.get("dashboardURL")
    where = f" --address http://{address}" if address else ""
    return f"stop it by hand: ray job stop {seen.job_id}{where}; or delete the cluster"
