"""Messages about failed attempts: one sentence for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.redaction import excerpt, last_error
from controller.kube.objects import ObjectMeta
from controller.ray.api.pod_state import ray_status
from controller.ray.dashboard import JobStatus, unconfirmed
from controller.ray.diagnosis.authors import deleted_by_others
from controller.ray.diagnosis.container import ending
from controller.ray.diagnosis.pod import ITS_REPLACEMENT, diagnose_pod
from controller.ray.job.collect_facts import (
    SUBMITTER_GRACE,
    dashboard_outage,
    info_of,
    result_of,
)
from controller.ray.job.state_machine.reasons import FailureReason
from controller.ray.job.status.readiness import child_suspension, cluster_cause, job_readiness

if TYPE_CHECKING:
    from controller.ray.job.observation import JobObservation
    from controller.ray.job.settings import JobSettings
    from controller.ray.job.state_machine.deadlines import Deadlines

LONGEST_MESSAGE: Final = 2048


def failure_message(
    seen: JobObservation, reason: FailureReason, settings: JobSettings, deadlines: Deadlines
) -> str:
    """Return the sentence with secrets redacted, at most `LONGEST_MESSAGE` characters."""
    return excerpt(_sentence(seen, reason, settings, deadlines), characters=LONGEST_MESSAGE)


def _sentence(  # noqa: PLR0911  one for each reason
    seen: JobObservation, reason: FailureReason, settings: JobSettings, deadlines: Deadlines
) -> str:
    match reason:
        case FailureReason.VALIDATION_FAILED:
            return reason.value.description if seen.problem is None else str(seen.problem)
        case FailureReason.DEADLINE_EXCEEDED:
            seconds = seen.spec.active_deadline_seconds
            limit = f" ({seconds} s)" if seconds else ""
            present = job_readiness(seen, settings, deadlines)
            cause = f": {present.message}" if present.status == "False" else ""
            return f"the attempt took longer than activeDeadlineSeconds{limit}{cause}"
        case FailureReason.PRE_RUNNING_DEADLINE_EXCEEDED:
            seconds = seen.spec.pre_running_deadline_seconds
            cause = job_readiness(seen, settings, deadlines).message
            return f"the job did not start to run within {seconds} s: {cause}"
        case FailureReason.APP_FAILED:
            return _app_failed(seen)
        case FailureReason.SUBMISSION_FAILED:
            return _submission_failed(seen)
        case FailureReason.HEAD_LOST:
            return _head_lost(seen, deadlines)
        case FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED:
            return _grace_period_exceeded(seen, settings, deadlines)
        case FailureReason.STATUS_CHECK_TIMEOUT_EXCEEDED:
            return _unreachable(seen, settings, deadlines)


def _app_failed(seen: JobObservation) -> str:
    info = info_of(seen)
    if result_of(seen) is JobStatus.FAILED:
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
    words = "" if last else seen.submitter.last_words
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
    if seen.ended_head is not None:
        found = diagnose_pod(seen.ended_head, deadlines.now, head_ready=True)
        if found is not None:
            return f"{lost}: {found.detail.removesuffix(ITS_REPLACEMENT)}"
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
    gave = seen.job.metadata if seen.owns_cluster else ObjectMeta()
    return deleted_by_others(gave, f"cluster {seen.cluster_name}")


def _grace_period_exceeded(
    seen: JobObservation, settings: JobSettings, deadlines: Deadlines
) -> str:
    result = result_of(seen)
    if result is not None:
        seconds = settings.transition_grace_period.total_seconds()
        return f"Ray said {result.value}, and the submitter had not ended {seconds:.0f} s later"
    ended = seen.submitter.ended
    at = f" at {rfc3339(ended)}" if ended is not None else ""
    said = (
        f"the Ray job did not reach a terminal state within {SUBMITTER_GRACE.total_seconds():.0f}s"
    )
    quiet = dashboard_outage(seen, settings, deadlines)
    why = f"; {_unreachable(seen, settings, deadlines)}" if quiet.since is not None else ""
    return f"The RayJob submitter finished{at} but {said}{why}"


def _unreachable(seen: JobObservation, settings: JobSettings, deadlines: Deadlines) -> str:
    since = dashboard_outage(seen, settings, deadlines).since
    error = seen.answer.error if seen.answer is not None else ""
    where = str(seen.head.dashboard) if seen.head is not None else f"cluster {seen.cluster_name}"
    at = f" since {rfc3339(since)}" if since is not None else ""
    return f"the dashboard of {where} has not answered{at}{f': {error}' if error else ''}"
