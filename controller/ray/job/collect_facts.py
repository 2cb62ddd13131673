"""Reduces an observation and the time to the facts of the table of transitions.

It applies all time limits, such as how long a dashboard may fail to answer and when "no such job"
counts, and compares the head with the one that was recorded for the attempt.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from controller.apimachinery.conditions import find_condition, is_true, time_of
from controller.apimachinery.custom_object import conditions_of, status_of
from controller.ray.api import labels
from controller.ray.api.names import (
    HEAD_POD_NOT_FOUND,
    HEAD_POD_READY,
    PROVISIONED,
    SUSPENDED,
    SUSPENDING,
    is_suspension_asked,
)
from controller.ray.api.raycluster import RayCluster
from controller.ray.api.rayjob import SubmissionMode
from controller.ray.dashboard.commands import CommandDone, unconfirmed
from controller.ray.dashboard.responses import JobInfo, JobStatus, NoSuchJob
from controller.ray.job.facts import (
    ClusterFact,
    Deadlines,
    HeadFact,
    JobFacts,
    OutageLength,
    RayFact,
    State,
    SubmitterFact,
)
from controller.ray.job.observation import JobObservation

LOST_HEAD_PATIENCE: Final = timedelta(seconds=90)
"""Time for which the head of an attempt may be gone before the attempt fails.

Including the time to notice the loss, that is less than two minutes.
"""

SUBMITTER_GRACE: Final = timedelta(seconds=30)
"""The time after the submitter's end in which Ray may learn of the job (KubeRay)."""

NOT_FOUND_FOR: Final = timedelta(seconds=10)
"""Time for which Ray must not know the job before that counts.

Until then the cache may still show the previous head.
"""

_FRESH_FAILURE: Final = timedelta(seconds=30)
"""Time for which the probes of this process must have failed.

Only then does an outage stored by an earlier process count as the same one.
"""

_ASK_AGAIN: Final = timedelta(seconds=5)
_CLOCKS_DIFFER: Final = timedelta(seconds=2)
"""Tolerance for the kubelet's times, which are whole seconds of another machine's clock."""

_WITH_DEADLINE: Final = frozenset({State.INITIALIZING, State.RUNNING})
_BEFORE_RUNNING: Final = frozenset({State.INITIALIZING, State.WAITING})
_RAY_FACTS: Final = {
    JobStatus.PENDING: RayFact.ACTIVE,
    JobStatus.RUNNING: RayFact.ACTIVE,
    JobStatus.STOPPED: RayFact.STOPPED,
    JobStatus.SUCCEEDED: RayFact.SUCCEEDED,
    JobStatus.FAILED: RayFact.FAILED,
}


class DashboardOutage(Struct, frozen=True):
    """An outage of the dashboard, or none.

    Attributes:
        since: its start, stored as `status.jobStatusCheckFailureStartTime`; None if the dashboard
            answers.
        length: its length, as a fact for transitions.
    """

    since: datetime | None
    length: OutageLength


def collect_facts(seen: JobObservation, deadlines: Deadlines) -> JobFacts:
    """Return the present facts; `deadlines` records when time changes the next of them."""
    spec, valid = seen.spec, seen.problem is None
    watch = deadlines if seen.state is State.RUNNING else deadlines.untracked
    return JobFacts(
        deleted=seen.job.metadata.terminating,
        valid=valid,
        suspend=is_suspension_asked(seen.job, seen.problem),
        interactive=seen.mode is SubmissionMode.INTERACTIVE,
        records_late=seen.mode is SubmissionMode.HTTP,
        id_given=bool(seen.given_id),
        has_attempt=bool(seen.cluster_name and seen.status.get("startTime")),
        may_be_submitted=bool(seen.cluster_name and seen.job_id)
        and bool(seen.status.get("dashboardURL")),
        cluster=_cluster(seen),
        head=_head(seen),
        submitter=seen.submitter.fact,
        without_pod=seen.submitter.unstarted,
        ray=_ray(seen, watch),
        outage=dashboard_outage(seen, watch).length,
        submission_refused=bool(unconfirmed(seen.submit_outcome)),
        was_known=bool(seen.status.get("jobStatus"))
        or isinstance(seen.submit_outcome, CommandDone),
        deadline_passed=_passed(
            seen,
            spec.active_deadline_seconds,
            deadlines if seen.state in _WITH_DEADLINE else deadlines.untracked,
        ),
        pre_running_deadline_passed=_passed(
            seen,
            spec.pre_running_deadline_seconds,
            deadlines if _waits_to_run(seen) else deadlines.untracked,
        ),
        submitter_grace_passed=_submitter_grace_passed(seen, watch),
        result_grace_passed=watch.waited(_result_time(seen), seen.settings.transition_grace_period),
        leftovers=seen.has_leftovers,
        failed=max(0, seen.status.get("failed", 0) - seen.disrupted_attempts),
        disrupted=bool(seen.disruption) and seen.spared_attempts > 0,
        backoff_limit=max(0, spec.backoff_limit),
    )


def dashboard_outage(seen: JobObservation, deadlines: Deadlines) -> DashboardOutage:
    """Return the present outage of the dashboard; `since` is None if it answers."""
    stored = time_of(seen.status.get("jobStatusCheckFailureStartTime"))
    head, answer = _head(seen), seen.answer
    if head is HeadFact.AWAITED:
        return DashboardOutage(None, OutageLength.SHORT)
    lost = head not in {HeadFact.SAME, HeadFact.UNRECORDED}
    if answer is not None and answer.failing_since is not None:
        since = answer.failing_since
        if stored is not None and (lost or deadlines.passed(since, _FRESH_FAILURE)):
            since = min(since, stored)
    elif answer is not None and answer.value is not None:
        return DashboardOutage(None, OutageLength.SHORT)
    elif lost:
        since = stored or deadlines.now
    else:  # this process has not probed yet, so a stored outage may be over
        return DashboardOutage(stored, OutageLength.SHORT)
    patience = seen.settings.status_check_timeout if seen.gcs_fault_tolerant else LOST_HEAD_PATIENCE
    length = OutageLength.SHORT
    if deadlines.waited(since, seen.settings.status_check_timeout):
        length = OutageLength.TOO_LONG
    elif lost and deadlines.waited(since, patience):
        length = OutageLength.TOO_LONG_FOR_LOST_HEAD
    return DashboardOutage(deadlines.waiting_since(since), length)


def _cluster(seen: JobObservation) -> ClusterFact:
    cluster = seen.cluster
    if cluster is None:
        return ClusterFact.STARTING if seen.foreign_cluster else ClusterFact.ABSENT
    if cluster.metadata.terminating:
        return ClusterFact.TERMINATING
    if seen.head is None and _makes_no_other_head(cluster):
        return ClusterFact.HEADLESS
    ready = status_of(cluster).get("state") == "ready"
    return ClusterFact.READY if ready or _sidecar_has_ended(seen) else ClusterFact.STARTING


def _makes_no_other_head(cluster: RayCluster) -> bool:
    """Return whether the cluster had a head, has none now, and must not replace it."""
    if (cluster.metadata.annotations or {}).get(labels.DISABLE_HEAD_RESTART) != "true":
        return False
    conditions = conditions_of(cluster)
    head = find_condition(conditions, HEAD_POD_READY) or {}
    is_absent = head.get("reason") == HEAD_POD_NOT_FOUND
    is_suspended = any(is_true(conditions, each) for each in (SUSPENDING, SUSPENDED))
    return is_absent and is_true(conditions, PROVISIONED) and not is_suspended


def _sidecar_has_ended(seen: JobObservation) -> bool:
    """Return whether a sidecar submitter has ended: its head never becomes Ready again."""
    ended = seen.submitter.has_ended
    return seen.mode is SubmissionMode.SIDECAR and seen.head is not None and ended


def _head(seen: JobObservation) -> HeadFact:
    if seen.head is None:
        unsubmitted = seen.is_unsubmitted or seen.may_change_heads
        return HeadFact.AWAITED if unsubmitted else HeadFact.GONE
    if seen.head.terminating and seen.is_unsubmitted:
        return HeadFact.AWAITED
    if not seen.recorded_head:
        return HeadFact.UNRECORDED
    if seen.head.id != seen.recorded_head:
        if seen.may_change_heads:
            return HeadFact.UNRECORDED
        known = seen.may_know_the_job
        return HeadFact.REPLACED if known else HeadFact.REPLACED_WITHOUT_STATE
    return HeadFact.TERMINATING if seen.head.terminating else HeadFact.SAME


def _ray(seen: JobObservation, deadlines: Deadlines) -> RayFact:
    result = seen.result
    if result is not None:
        return _RAY_FACTS[result]
    answer = seen.answer
    if answer is None or answer.failing_since is not None:
        return RayFact.NO_ANSWER
    if isinstance(answer.value, JobInfo):
        return _RAY_FACTS[answer.value.status]
    if not isinstance(answer.value, NoSuchJob) or not deadlines.waited(answer.since, NOT_FOUND_FOR):
        return RayFact.NO_ANSWER
    return RayFact.NOT_FOUND if _asked_after_submitter_ended(seen, deadlines) else RayFact.NO_ANSWER


def _asked_after_submitter_ended(seen: JobObservation, deadlines: Deadlines) -> bool:
    """Return whether Ray was asked after the submitter ended."""
    ended = seen.submitter.ended
    if not seen.submitter.has_ended or ended is None:
        return True
    asked = seen.answer.last_success if seen.answer is not None else None
    if asked is not None and asked > ended + _CLOCKS_DIFFER:
        return True
    deadlines.reached(deadlines.now + _ASK_AGAIN)  # an unchanged answer enqueues nothing
    return False


def _submitter_grace_passed(seen: JobObservation, deadlines: Deadlines) -> bool:
    if not seen.submitter.has_ended:
        return False
    ended = seen.submitter.ended
    return ended is None or deadlines.waited(ended, SUBMITTER_GRACE)


def _result_time(seen: JobObservation) -> datetime | None:
    """Return the time when the Ray job ended; None if it has not."""
    if seen.result is None:
        return None
    info = seen.info
    if info is not None and info.end_time is not None:
        return info.end_time
    stored: dict[str, Any] = seen.status.get("rayJobInfo") or {}
    return time_of(stored.get("endTime")) or time_of(seen.status.get("startTime"))


def _waits_to_run(seen: JobObservation) -> bool:
    """Return whether the attempt is still being prepared."""
    absent = seen.submitter.fact is SubmitterFact.ABSENT or seen.submitter.unstarted
    return seen.state in _BEFORE_RUNNING or absent or seen.is_unsubmitted


def _passed(seen: JobObservation, seconds: int | None, deadlines: Deadlines) -> bool:
    """Return whether so many seconds have passed since the start; never if there is no limit."""
    started = time_of(seen.status.get("startTime"))
    limit = max(0, seconds or 0)  # an invalid one is none
    return limit > 0 and deadlines.passed(started, timedelta(seconds=limit))
