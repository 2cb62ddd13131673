"""The conditions and messages of a RayJob, and the list of its attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from controller.apimachinery.conditions import READY, ConditionSet, rfc3339
from controller.apimachinery.redaction import excerpt, last_error
from controller.kube.objects import ObjectMeta
from controller.ray.api.pod_state import ray_status
from controller.ray.dashboard import JobStatus, unconfirmed
from controller.ray.diagnosis.pod import ending
from controller.ray.diagnosis.writes import deleted_by_others
from controller.ray.job.collect_facts import (
    SUBMITTER_GRACE,
    dashboard_outage,
    info_of,
    result_of,
)
from controller.ray.job.dashboard import JOB_STOPPED, STOP_NOT_CONFIRMED
from controller.ray.job.facts import Deadlines, FailureReason
from controller.ray.job.observation import JobObservation
from controller.ray.job.readiness import (
    JobReadiness,
    child_suspension,
    cluster_cause,
    end_of_head,
    job_readiness,
)

# The conditions of a RayJob, which KubeRay does not have.
#
# `Ready` reports the present and names the first cause. `Retried` reports the last retry and is
# never removed. `DashboardReachable` is present only while the dashboard cannot be reached.
# KubeRay's CRD drops conditions: transitions set them, and they are updated only if the server kept
# them.

RETRIED: Final = "Retried"
DASHBOARD_REACHABLE: Final = "DashboardReachable"
CLEANED_UP: Final = "CleanedUp"
CLUSTER_AS_SPECIFIED: Final = "ClusterAsSpecified"
DELETION_RULES_MATCH: Final = "DeletionRulesMatch"
NO_RULE_MATCHES: Final = "NoRuleMatches"
JOB_AS_SPECIFIED: Final = "JobAsSpecified"


class JobConditions(ConditionSet):
    """The conditions of a RayJob, each set by its own rule."""

    def __init__(self, seen: JobObservation, now: datetime) -> None:
        super().__init__(seen.status.get("conditions", ()), seen.job.metadata.generation, now)

    def set_ready(self, cause: JobReadiness) -> None:
        """Set the condition `Ready`: True if the job is in its intended state, else the cause."""
        self.set(READY, cause.status, cause.reason, cause.message)

    def set_retried(self, reason: str, message: str) -> None:
        """Report the last attempt that was followed by another one, and why it failed."""
        self.set(RETRIED, "True", reason, message)

    def set_dashboard(self, unreachable: str) -> None:
        """Report since when the dashboard does not answer; remove it if it does or is not asked."""
        self.set_if(DASHBOARD_REACHABLE, "False", "Unreachable", unreachable)

    def set_outdated(self, *, outdated: bool) -> None:
        """Set the condition about a `spec.rayClusterSpec` edited after the cluster was created."""
        words = "spec.rayClusterSpec was changed; the next attempt's cluster is created from it"
        self.set_if(CLUSTER_AS_SPECIFIED, "False", "SpecChanged", words if outdated else "")

    def set_changed(self, fields: Sequence[str], *, ended: bool) -> None:
        """Set the condition about fields that were changed after the job had been submitted."""
        words = ""
        if fields:
            names = ", ".join(f"spec.{name}" for name in fields)
            outlook = "the job runs as it was submitted, and only another attempt would differ"
            if ended:
                outlook = "a job that has ended does not run again: create a RayJob of another name"
            words = f"changed after the job had been submitted: {names}; {outlook}"
        self.set_if(JOB_AS_SPECIFIED, "False", "SpecChanged", words)

    def set_stopped(self, unconfirmed: str) -> None:
        """Report a job that may still run although nobody follows it; remove it once it ended."""
        self.set_if(JOB_STOPPED, "False", STOP_NOT_CONFIRMED, unconfirmed)

    def set_rules_match(self, unmatched: str) -> None:
        """Report an end of the job about which the rules of deletion say nothing."""
        self.set_if(DELETION_RULES_MATCH, "False", NO_RULE_MATCHES, unmatched)

    def set_cleanup(self, reason: str, failure: str) -> None:
        """Set the condition about what blocks the rules of deletion; empty if nothing does."""
        self.set_if(CLEANED_UP, "False", reason, failure)


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
    result = result_of(seen)
    if result is not None:
        seconds = seen.settings.transition_grace_period.total_seconds()
        return f"Ray said {result.value}, and the submitter had not ended {seconds:.0f} s later"
    ended = seen.submitter.ended
    at = f" at {rfc3339(ended)}" if ended is not None else ""
    said = (
        f"the Ray job did not reach a terminal state within {SUBMITTER_GRACE.total_seconds():.0f}s"
    )
    quiet = dashboard_outage(seen, deadlines)
    why = f"; {_unreachable(seen, deadlines)}" if quiet.since is not None else ""
    return f"The RayJob submitter finished{at} but {said}{why}"


def _unreachable(seen: JobObservation, deadlines: Deadlines) -> str:
    since = dashboard_outage(seen, deadlines).since
    error = seen.answer.error if seen.answer is not None else ""
    where = str(seen.head.dashboard) if seen.head is not None else f"cluster {seen.cluster_name}"
    at = f" since {rfc3339(since)}" if since is not None else ""
    return f"the dashboard of {where} has not answered{at}{f': {error}' if error else ''}"


# `status.attempts`: the last ten attempts, for information only; no decision depends on it.

Attempt = dict[str, Any]

KEPT: Final = 10
"""Number of attempts kept."""


def begin(
    present: Sequence[Mapping[str, Any]],
    *,
    failed: int,
    cluster: str,
    job_id: str,
    now: datetime,
) -> list[Attempt]:
    """Return the attempts and a new one that starts now, after `failed` failures."""
    last = max((_number(each) for each in present), default=0)
    attempt = {
        "number": max(last, failed) + 1,
        "rayClusterName": cluster,
        "jobId": job_id,
        "startTime": rfc3339(now),
    }
    return _kept([*present, attempt])


def change(
    present: Sequence[Mapping[str, Any]], cluster: str, **changes: Any
) -> list[Attempt] | None:
    """Return the attempts with the last one changed; None if the last one ran on another cluster.

    Empty values are left out.
    """
    if not present or present[-1].get("rayClusterName") != cluster:
        return None
    changed = {name: value for name, value in changes.items() if value}
    return _kept([*present[:-1], {**present[-1], **changed}])


def _kept(attempts: Sequence[Mapping[str, Any]]) -> list[Attempt]:
    return [dict(each) for each in attempts[-KEPT:]]


def _number(attempt: Mapping[str, Any]) -> int:
    number = attempt.get("number")
    return number if isinstance(number, int) else 0
