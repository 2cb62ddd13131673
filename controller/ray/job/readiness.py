"""What keeps a RayJob from running, and why an attempt failed: one sentence for the user."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from controller.apimachinery.conditions import READY, ConditionSet, find_condition, rfc3339
from controller.apimachinery.custom_object import conditions_of, mapping
from controller.apimachinery.metadata import ownership_text
from controller.apimachinery.redaction import excerpt, last_error, redact
from controller.kube.objects import Job, ObjectMeta
from controller.kube.resources import JOBS
from controller.ray.api.names import KUBERAY_NOUNS, SUBMITTER
from controller.ray.api.pod_state import ray_status
from controller.ray.api.raycluster import RayCluster
from controller.ray.api.rayjob import RAYJOBS, SubmissionMode
from controller.ray.children.scheduling_groups import ObservedGroups
from controller.ray.dashboard.commands import unconfirmed
from controller.ray.dashboard.responses import JobInfo, JobStatus, NoSuchJob
from controller.ray.diagnosis.pod import ITS_REPLACEMENT, diagnose_pod, ending
from controller.ray.diagnosis.reasons import SCHEDULING_GROUP_MISSING
from controller.ray.diagnosis.writes import deleted_by_others, failure_cause, suspended_by_others
from controller.ray.job.collect_facts import SUBMITTER_GRACE, dashboard_outage
from controller.ray.job.facts import Deadlines, FailureReason, State, SubmitterFact
from controller.ray.job.observation import SUBMITTER_SCOPE, JobObservation
from controller.ray.job.submitter import submitting_container
from controller.runtime import reasons
from controller.runtime.plan import FailedCreates, Failure
from controller.runtime.reasons import (
    Reason,
    events_of,
    next_look,
    suspension_of,
)

# Why the Job that submits has no pod: what its events say, and what a user can do about it.


def events_to_read(seen: JobObservation, deadlines: Deadlines) -> tuple[FailedCreates, ...]:
    """Return the lookup of the Job's events, if it has had no pod for a while."""
    job = seen.submitter_job
    if job is None or seen.state is not State.RUNNING or not seen.submitter.unstarted:
        return ()
    if job.spec.suspend or not deadlines.reached(next_look(job.metadata, seen.failed_create)):
        return ()
    return (events_of(job.metadata, deadlines.now),)


def cause_of_missing_pod(seen: JobObservation) -> tuple[str, str] | None:
    """Return reason and sentence about a Job without a pod; None if nothing is known yet."""
    job = seen.submitter_job
    if job is None or not seen.submitter.unstarted:
        return None
    if job.spec.suspend:
        return "SubmitterSuspended", suspension_of(job.metadata, RAYJOBS.kind)
    words = _words(seen, job)
    cause = reasons.cause_of_missing_pod(JOBS, job.metadata, seen.failed_create, words)
    return cause and (cause[0], f"submitter: {cause[1]}")


def _words(seen: JobObservation, job: Job) -> dict[Reason, str]:
    """Return remedies that name the field in which the submitter is described."""
    field = "spec.submitterPodTemplate"
    if seen.spec.submitter_pod_template is not None:
        where = f"of container {submitting_container(job)} in {field}"
    else:
        where = f"of the submitter: give {field} a container {SUBMITTER} that has them"
    return reasons.remedies_in(field, where)


# The `Ready` condition of a RayJob: the first cause that keeps it from running.
#
# The cluster's own condition explains why the cluster is not ready, the submitter's pod why it does
# not start, and the probe why the dashboard cannot be reached.

_NOUNS: Final = {**KUBERAY_NOUNS, JOBS: "RayJobSubmitter"}
_NO_GROUP: Final = "FailedToCreatePodGroup"


class JobReadiness(Struct, frozen=True):
    """The content of the condition `Ready`.

    Attributes:
        status: whether the job is in its intended state.
        event: reason of the Warning event about it; empty for no event.
    """

    reason: str
    message: str
    status: Literal["True", "False"] = "False"
    event: str = ""

    def set_in(self, conditions: ConditionSet) -> None:
        """Set the condition `Ready`."""
        conditions.set(READY, self.status, self.reason, self.message)


_UNTIL_CORRECTED: Final = "the job is submitted when the specification is corrected"


def job_readiness(  # noqa: PLR0911  one for each state
    seen: JobObservation,
    deadlines: Deadlines,
    failures: tuple[Failure, ...] = (),
) -> JobReadiness:
    """Return the first cause in the present state; failed writes come before all others."""
    for failure in failures:
        if not failure.may_resolve:
            return _failed_write(failure)
    match seen.state:
        case State.INITIALIZING | State.WAITING if seen.problem is not None:
            return JobReadiness("ValidationFailed", str(seen.problem))
        case State.NEW | State.INITIALIZING:
            return _initializing(seen)
        case State.WAITING:
            known = f"spec.jobId {seen.spec.job_id} is of an earlier attempt: "
            message = "submit the job to the cluster and set spec.jobId to its submission id"
            message = known + message if seen.spec.job_id and not seen.given_id else message
            return JobReadiness("WaitingForJobId", message)
        case State.RUNNING:
            return _running(seen, deadlines)
        case State.SUSPENDING | State.RETRYING:
            return JobReadiness(seen.state.title, _remaining_children(seen))
        case State.SUSPENDED:
            return JobReadiness("Suspended", "spec.suspend is true")
        case State.VALIDATION_FAILED if seen.problem is not None:
            message = str(seen.problem)
            return JobReadiness("ValidationFailed", message, event=seen.problem.reason)
        case _:
            return JobReadiness(seen.state.title, str(seen.status.get("message", "")))


def _failed_write(failure: Failure) -> JobReadiness:
    cause = failure_cause(failure, has_head=True, nouns=_NOUNS)
    return JobReadiness(cause.reason.name, cause.message, event=cause.event)


def _initializing(seen: JobObservation) -> JobReadiness:
    name = seen.cluster_name
    if seen.cluster is None:
        return _no_cluster(seen)
    if seen.cluster.metadata.terminating:
        return JobReadiness("RayClusterBeingDeleted", f"cluster {name} is being deleted")
    if suspended := child_suspension(seen):
        return JobReadiness("RayClusterSuspended", suspended)
    ready = find_condition(conditions_of(seen.cluster), READY) or {}
    if cause := cluster_cause(seen.cluster):
        return JobReadiness(str(ready.get("reason")), f"cluster {name}: {cause}")
    if ready.get("status") == "True":
        return JobReadiness(
            "RayClusterReady", f"cluster {name} is ready; the job is about to be submitted"
        )
    return JobReadiness("RayClusterNotReady", f"cluster {name} has not reported its state yet")


def cluster_cause(cluster: RayCluster) -> str:
    """Return the message of the cluster's own `Ready`; empty if it is ready, or says nothing."""
    ready = find_condition(conditions_of(cluster), READY) or {}
    return str(ready.get("message")) if ready.get("status") == "False" else ""


def child_suspension(seen: JobObservation) -> str:
    """Return a sentence about an own cluster that somebody else has suspended; else empty."""
    spec = mapping(seen.spec.ray_cluster_spec)
    asked = not seen.owns_cluster or spec.get("suspend") is True
    return suspended_by_others(seen.cluster, RAYJOBS.kind, asked=asked)


def _no_cluster(seen: JobObservation) -> JobReadiness:
    spec, name = seen.spec, seen.cluster_name
    if (held_up := _without_group(seen.groups)) is not None:
        return held_up
    for failure in seen.refused_creates:
        if failure.write.target.scope != SUBMITTER_SCOPE:
            return _failed_write(failure)
    if seen.foreign_cluster:
        message = f"cluster {name} exists and {ownership_text(None)}; delete it"
        return JobReadiness("RayClusterTaken", message, event="FailedToCreateRayCluster")
    if spec.selected_cluster:
        message = (
            f"there is no RayCluster {spec.selected_cluster}, which spec.clusterSelector names"
        )
        return JobReadiness("RayClusterNotFound", message, event="RayClusterNotFound")
    return JobReadiness("RayClusterNotReady", f"cluster {name} is being created")


def _without_group(groups: ObservedGroups) -> JobReadiness | None:
    """Return why the cluster waits for the group of its pods; None if it does not."""
    if groups.unserved:
        words = f"{groups.unserved}; the cluster is not created before"
        return JobReadiness(SCHEDULING_GROUP_MISSING.name, words, event=_NO_GROUP)
    if groups.taken:
        return JobReadiness("PodGroupTaken", groups.taken[0], event=_NO_GROUP)
    return JobReadiness("RayClusterNotReady", groups.awaited) if groups.awaited else None


def _running(seen: JobObservation, deadlines: Deadlines) -> JobReadiness:
    info, result = seen.info, seen.result
    if result is not None:
        return JobReadiness(
            "JobEnded", f"Ray reports {result.value}; the submitter still prints the log"
        )
    silent = outage_text(seen, deadlines)
    if info is None or silent:
        if seen.head is None and (seen.is_unsubmitted or seen.may_change_heads):
            return _initializing(seen)
        if seen.head is None or (seen.recorded_head and seen.head.id != seen.recorded_head):
            return _lost(seen, deadlines)
        if silent:
            message = f"{seen.head.dashboard} has not answered {silent}"
            return JobReadiness("DashboardUnreachable", message)
    return _as_ray_reports(seen, deadlines)


def _as_ray_reports(seen: JobObservation, deadlines: Deadlines) -> JobReadiness:
    value = seen.answer.value if seen.answer is not None else None
    match value:
        case JobInfo(status=JobStatus.RUNNING):
            return JobReadiness("JobRunning", "Ray reports that the job is running", status="True")
        case JobInfo():
            message = redact(value.message) or "Ray has accepted the job and has not started it"
            return JobReadiness("JobPending", message)
        case NoSuchJob():
            return _not_submitted(seen, deadlines)
        case _:
            return JobReadiness("JobStatusUnknown", "the dashboard has not been asked yet")


def _lost(seen: JobObservation, deadlines: Deadlines) -> JobReadiness:
    if suspended := child_suspension(seen):
        return JobReadiness("RayClusterSuspended", suspended)
    since = dashboard_outage(seen, deadlines).since
    at = f" since {rfc3339(since)}" if since is not None else ""
    end = end_of_head(seen, deadlines)
    gone = "has ended" if end else "is gone"
    what = gone if seen.head is None else "was replaced or restarted"
    message = f"the head of cluster {seen.cluster_name} {what}{at}; the job on it may be lost"
    return JobReadiness("HeadLost", f"{message}: {end}" if end else message, event="HeadLost")


def end_of_head(seen: JobObservation, deadlines: Deadlines) -> str:
    """Return how the head has ended whose pod is still there; empty if there is none."""
    if seen.ended_head is None:
        return ""
    found = diagnose_pod(seen.ended_head, deadlines.now, head_ready=True)
    return found.detail.removesuffix(ITS_REPLACEMENT) if found is not None else ""


def outage_text(seen: JobObservation, deadlines: Deadlines) -> str:
    """Return since when the dashboard has not answered, and the error; empty if it answers."""
    since = dashboard_outage(seen, deadlines).since
    error = seen.answer.error if seen.answer is not None else ""
    return f"since {rfc3339(since)}: {error}".rstrip(": ") if since is not None else ""


def _not_submitted(seen: JobObservation, deadlines: Deadlines) -> JobReadiness:
    absent = seen.mode is SubmissionMode.K8S_JOB and seen.submitter.fact is SubmitterFact.ABSENT
    if seen.problem is not None and (absent or seen.mode is SubmissionMode.HTTP):
        return JobReadiness("ValidationFailed", f"{_UNTIL_CORRECTED}: {seen.problem}")
    if seen.foreign_submitter:
        name = seen.job.metadata.name
        message = f"Job {name} exists and {ownership_text(None)}; delete it"
        return JobReadiness("SubmitterTaken", message, event="FailedToCreateRayJobSubmitter")
    for failure in seen.refused_creates:
        if failure.write.target.scope == SUBMITTER_SCOPE:
            return _failed_write(failure)
    missing = cause_of_missing_pod(seen)
    if missing is not None:
        return JobReadiness(*missing, event="FailedToCreateRayJobSubmitter")
    for pod in seen.submitter_pods:
        found = diagnose_pod(pod, deadlines.now, head_ready=True)
        if found is not None and seen.submitter.fact is SubmitterFact.ACTIVE:
            return JobReadiness(found.reason.name, f"submitter: {found.detail}")
    return JobReadiness("JobNotSubmitted", f"Ray does not know submission id {seen.job_id} yet")


def _remaining_children(seen: JobObservation) -> str:
    left = [f"RayCluster {each.metadata.name}" for each in seen.stale_clusters]
    if seen.owns_cluster:
        left.insert(0, f"RayCluster {seen.cluster_name}")
    if seen.submitter_job is not None:
        left.append(f"Job {seen.submitter_job.metadata.name}")
    if seen.may_still_run and seen.state is State.SUSPENDING:
        left.append(f"job {seen.job_id} in Ray")
    return f"waits for the end of {', '.join(left)}" if left else "nothing is left to delete"


# Messages about failed attempts: one sentence for the user.

LONGEST_MESSAGE: Final = 2048


def failure_message(seen: JobObservation, reason: FailureReason, deadlines: Deadlines) -> str:
    """Return the sentence with secrets redacted, at most `LONGEST_MESSAGE` characters."""
    return excerpt(_sentence(seen, reason, deadlines), characters=LONGEST_MESSAGE)


def _sentence(  # noqa: PLR0911  one for each reason
    seen: JobObservation, reason: FailureReason, deadlines: Deadlines
) -> str:
    match reason:
        case FailureReason.VALIDATION_FAILED:
            return reason.description if seen.problem is None else str(seen.problem)
        case FailureReason.DEADLINE_EXCEEDED:
            seconds = seen.spec.active_deadline_seconds
            limit = f" ({seconds} s)" if seconds else ""
            present = job_readiness(seen, deadlines)
            cause = f": {present.message}" if present.status == "False" else ""
            return f"the attempt took longer than activeDeadlineSeconds{limit}{cause}"
        case FailureReason.PRE_RUNNING_DEADLINE_EXCEEDED:
            seconds = seen.spec.pre_running_deadline_seconds
            cause = job_readiness(seen, deadlines).message
            return f"the job did not start to run within {seconds} s: {cause}"
        case FailureReason.APP_FAILED:
            return _app_failed(seen)
        case FailureReason.SUBMISSION_FAILED:
            return _submission_failed(seen)
        case FailureReason.HEAD_LOST:
            return _head_lost(seen, deadlines)
        case FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED:
            return _grace_period_exceeded(seen, deadlines)
        case FailureReason.STATUS_CHECK_TIMEOUT_EXCEEDED:
            return _unreachable(seen, deadlines)


def _app_failed(seen: JobObservation) -> str:
    info = seen.info
    if seen.result is JobStatus.FAILED:
        said = info.message if info is not None else str(seen.status.get("message", ""))
        return said or "Ray reports that the job failed without saying why"
    if seen.submitter.ended is not None and not seen.status.get("jobStatus"):
        return (
            f"the submitter finished at {rfc3339(seen.submitter.ended)}, and Ray does not know "
            f"submission id {seen.job_id}"
        )
    return (
        f"Ray no longer knows submission id {seen.job_id}, which it knew before: "
        "the job was deleted there"
    )


def _submission_failed(seen: JobObservation) -> str:
    refused = unconfirmed(seen.submit_outcome)
    if refused:
        return f"Ray did not accept the job: {refused}"
    last = last_error(seen.log.text) if seen.log is not None else ""
    words = "" if last else seen.submitter.final_error
    return (
        f"the submitter failed ({seen.submitter.failure or 'no reason given'}){words}, and Ray "
        f"does not know submission id {seen.job_id}{f'; its log ends with: {last}' if last else ''}"
    )


def _head_lost(seen: JobObservation, deadlines: Deadlines) -> str:
    lost = "HeadLost: the head that the job ran on is lost"
    if seen.cluster is None or seen.cluster.metadata.terminating:
        return f"{lost}: {_deleted(seen)}"
    if suspended := child_suspension(seen):
        return f"{lost}: {suspended}"
    pod = seen.recorded_head.partition("/")[0]
    if end := end_of_head(seen, deadlines):
        return f"{lost}: {end}"
    if seen.head is None:
        which = f" (pod uid {pod})" if pod else ""
        cause = cluster_cause(seen.cluster)
        what = f"has ended; cluster {seen.cluster_name}: {cause}" if cause else "is gone"
        return f"{lost}: the head of cluster {seen.cluster_name}{which} {what}"
    if seen.head.dashboard.pod_uid == pod:
        ray = ray_status(seen.head.pod)
        last = ray.last_state.terminated if ray is not None else None
        how = f"; before, it {ending(last)}" if last else ""
        return f"{lost}: Ray in pod {seen.head.pod.metadata.name} restarted{how}"
    return f"{lost}: it was replaced by pod {seen.head.pod.metadata.name}"


def _deleted(seen: JobObservation) -> str:
    gave = ObjectMeta() if seen.spec.selected_cluster else seen.job.metadata
    return deleted_by_others(gave, f"cluster {seen.cluster_name}")


def _grace_period_exceeded(seen: JobObservation, deadlines: Deadlines) -> str:
    result = seen.result
    if result is not None:
        seconds = seen.settings.transition_grace_period.total_seconds()
        return f"Ray said {result.value}, and the submitter had not ended {seconds:.0f} s later"
    ended = seen.submitter.ended
    at = f" at {rfc3339(ended)}" if ended is not None else ""
    said = (
        f"the Ray job did not reach a terminal state within {SUBMITTER_GRACE.total_seconds():.0f}s"
    )
    why = f"; {_unreachable(seen, deadlines)}" if outage_text(seen, deadlines) else ""
    return f"The RayJob submitter finished{at} but {said}{why}"


def _unreachable(seen: JobObservation, deadlines: Deadlines) -> str:
    where = str(seen.head.dashboard) if seen.head is not None else f"cluster {seen.cluster_name}"
    return f"the dashboard of {where} has not answered {outage_text(seen, deadlines)}".rstrip()
