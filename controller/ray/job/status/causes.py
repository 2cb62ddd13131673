"""What a RayJob waits for, or suffers from: the first cause, lifted from where it was found.

The cluster's own condition says why the cluster is not ready, the submitter's pod why it does not
start, the dashboard why it cannot be asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.problem import Problem
from controller.apimachinery.timestamps import rfc3339
from controller.ray.api.raycluster import conditions_of
from controller.ray.cluster.status.conditions import READY
from controller.ray.dashboard import JobInfo, JobStatus, NoSuchJob
from controller.ray.diagnosis.pod import trouble
from controller.ray.diagnosis.writes import failure_cause
from controller.ray.job.observe import CLUSTER_SCOPE
from controller.ray.job.state_machine.collect_facts import info_of, quiet_of, result_of
from controller.ray.job.state_machine.facts import SubmitterFact
from controller.ray.job.state_machine.states import State
from controller.ray.job.status.redaction import redact

if TYPE_CHECKING:
    from controller.ray.job.observe import Observation
    from controller.ray.job.settings import JobSettings
    from controller.ray.job.state_machine.deadlines import Clock
    from controller.runtime.reconcile.plan import Failure


@dataclass(frozen=True, slots=True)
class Cause:
    """What the condition `Ready` says.

    Attributes:
        reason: in one word.
        message: in words.
        status: whether the job is where it should be.
        event: reason of the Warning event that tells it, empty if it is not worth one.
    """

    reason: str
    message: str
    status: Literal["True", "False"] = "False"
    event: str = ""


def first_cause(  # noqa: PLR0911  one for each state
    seen: Observation, settings: JobSettings, clock: Clock, failures: tuple[Failure, ...] = ()
) -> Cause:
    """The first cause in the state that the job is in; `failures` are writes that went wrong."""
    for failure in failures:
        return _failed_write(failure)
    match seen.state:
        case State.NEW | State.INITIALIZING:
            return _initializing(seen)
        case State.WAITING:
            words = "submit the job to the cluster and set spec.jobId to its submission id"
            return Cause("WaitingForJobId", words)
        case State.RUNNING:
            return _running(seen, settings, clock)
        case State.SUSPENDING | State.RETRYING:
            return Cause(seen.state.title, _what_is_left(seen))
        case State.SUSPENDED:
            return Cause("Suspended", "spec.suspend is true")
        case State.VALIDATION_FAILED if isinstance(seen.spec, Problem):
            return Cause("ValidationFailed", str(seen.spec), event=seen.spec.reason)
        case _:
            return Cause(seen.state.title, str(seen.status.get("message", "")))


def _failed_write(failure: Failure) -> Cause:
    cause = failure_cause(failure, has_head=True)
    event = cause.event.replace("RedisCleanupJob", "RayJobSubmitter")
    return Cause(cause.reason.name, cause.message, event=event)


def _initializing(seen: Observation) -> Cause:
    name = seen.cluster_name
    if seen.cluster is None:
        return _no_cluster(seen)
    if seen.cluster.metadata.terminating:
        return Cause("RayClusterBeingDeleted", f"cluster {name} is being deleted")
    ready = find_condition(conditions_of(seen.cluster), READY) or {}
    if ready.get("status") == "False":
        return Cause(str(ready.get("reason")), f"cluster {name}: {ready.get('message')}")
    if ready.get("status") == "True":
        return Cause("RayClusterReady", f"cluster {name} is ready; the job is about to be run")
    return Cause("RayClusterNotReady", f"cluster {name} does not say yet how it is")


def _no_cluster(seen: Observation) -> Cause:
    spec, name = seen.spec, seen.cluster_name
    for scope, refusal in seen.refusals:
        if scope == CLUSTER_SCOPE:
            words = f"cluster {name} cannot be created: {refusal.message}"
            return Cause(refusal.reason, words, event="FailedToCreateRayCluster")
    if seen.foreign_cluster:
        words = f"cluster {name} exists and belongs to somebody else; delete it"
        return Cause("RayClusterTaken", words, event="FailedToCreateRayCluster")
    if not isinstance(spec, Problem) and spec.selected_cluster:
        words = f"there is no RayCluster {spec.selected_cluster}, which spec.clusterSelector names"
        return Cause("RayClusterNotFound", words, event="RayClusterNotFound")
    return Cause("RayClusterNotReady", f"cluster {name} is being created")


def _running(seen: Observation, settings: JobSettings, clock: Clock) -> Cause:
    info, result = info_of(seen), result_of(seen)
    if result is not None:
        return Cause("JobEnded", f"Ray says {result.value}; the submitter prints the rest")
    silent = quiet_of(seen, settings, clock).since is not None
    if info is None or silent:
        if seen.head is None or (seen.recorded and seen.head.incarnation != seen.recorded):
            return _lost(seen, settings, clock)
        if silent:
            return _unreachable(seen, settings, clock)
    return _as_ray_says(seen, clock)


def _as_ray_says(seen: Observation, clock: Clock) -> Cause:
    value = seen.answer.value if seen.answer is not None else None
    match value:
        case JobInfo(status=JobStatus.RUNNING):
            return Cause("JobRunning", "Ray says that the job is running", status="True")
        case JobInfo():
            words = redact(value.message) or "Ray has the job, and waits to run it"
            return Cause("JobPending", words)
        case NoSuchJob():
            return _not_submitted(seen, clock)
        case _:
            return Cause("JobStatusUnknown", "the dashboard has not been asked yet")


def _lost(seen: Observation, settings: JobSettings, clock: Clock) -> Cause:
    since = quiet_of(seen, settings, clock).since
    at = f" since {rfc3339(since)}" if since is not None else ""
    what = "is gone" if seen.head is None else "was replaced or restarted"
    words = f"the head of cluster {seen.cluster_name} {what}{at}; the job on it may be lost"
    return Cause("HeadLost", words, event="HeadLost")


def _unreachable(seen: Observation, settings: JobSettings, clock: Clock) -> Cause:
    since = quiet_of(seen, settings, clock).since
    assert seen.head is not None
    assert since is not None
    error = seen.answer.error if seen.answer is not None else ""
    words = f"{seen.head.dashboard} has not answered since {rfc3339(since)}"
    return Cause("DashboardUnreachable", f"{words}: {error}".rstrip(": "))


def _not_submitted(seen: Observation, clock: Clock) -> Cause:
    if seen.foreign_submitter:
        words = f"Job {seen.job.metadata.name} exists and belongs to somebody else; delete it"
        return Cause("SubmitterTaken", words, event="FailedToCreateRayJobSubmitter")
    for scope, refusal in seen.refusals:
        if scope != CLUSTER_SCOPE:
            words = f"the submitter cannot be created: {refusal.message}"
            return Cause(refusal.reason, words, event="FailedToCreateRayJobSubmitter")
    for pod in seen.submitter_pods:
        found = trouble(pod, clock.now, head_ready=True)
        if found is not None and seen.submitter.fact is SubmitterFact.ACTIVE:
            return Cause(found.reason.name, f"submitter: {found.words}")
    return Cause("JobNotSubmitted", f"Ray does not know submission id {seen.job_id} yet")


def _what_is_left(seen: Observation) -> str:
    left = [f"RayCluster {each.metadata.name}" for each in seen.strays]
    if seen.owns_cluster:
        left.insert(0, f"RayCluster {seen.cluster_name}")
    if seen.submitter_job is not None:
        left.append(f"Job {seen.submitter_job.metadata.name}")
    return f"waits for the end of {', '.join(left)}" if left else "nothing is left to be deleted"
