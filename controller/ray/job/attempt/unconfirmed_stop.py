"""What is said about a job that nobody follows any more and that may still run in Ray.

A request to stop it that was sent, accepted or given up is no stop: only Ray's word ends the
condition `JobStopped`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import find_condition, rfc3339, time_of
from controller.ray.job.attempt.dashboard import STOP_LIMIT
from controller.ray.job.collect_facts import info_of, may_still_run
from controller.ray.job.states import State

if TYPE_CHECKING:
    from controller.ray.job.observation import JobObservation
    from controller.ray.job.state_machine.deadlines import Deadlines

JOB_STOPPED: Final = "JobStopped"
STOP_NOT_CONFIRMED: Final = "StopNotConfirmed"


def unconfirmed_stop(seen: JobObservation, deadlines: Deadlines) -> str:
    """Return the message of the condition; empty if the job has ended, or is still followed."""
    if not may_still_run(seen):
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
    info, answer = info_of(seen), seen.answer
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
