"""The status of a RayJob: what it is while a state lasts, and what a transition stores."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from controller.apimachinery.conditions import (
    READY,
    ConditionSet,
    find_condition,
    rfc3339,
    time_of,
)
from controller.apimachinery.custom_object import status_of
from controller.apimachinery.patches import difference, replacement
from controller.apimachinery.redaction import excerpt, in_short, last_lines
from controller.ray.api.rayjob import RAYJOBS, SubmissionMode
from controller.ray.dashboard.responses import JobStatus
from controller.ray.job.attempt import changed_after_submission, is_outdated
from controller.ray.job.cleanup import unmatched_rules
from controller.ray.job.collect_facts import dashboard_outage
from controller.ray.job.dashboard import (
    JOB_STOPPED,
    STOP_NOT_CONFIRMED,
    failed_stop,
    unconfirmed_stop,
)
from controller.ray.job.facts import Deadlines, FailureReason, State, SubmitterFact
from controller.ray.job.observation import JobObservation
from controller.ray.job.readiness import (
    LONGEST_MESSAGE,
    JobReadiness,
    failure_message,
    job_readiness,
    outage_text,
)
from controller.ray.job.table import DueTransition
from controller.runtime.definitions import (
    refused_edit_events,
    set_fields_known,
    set_spec_accepted,
    unknown_field_events,
)
from controller.runtime.plan import Event, Failure, MergePatch, StatusPatch
from controller.runtime.status import status_commit

# The status between transitions: the reports of Ray and the cluster, and the first cause.
#
# It decides and counts nothing; at rest the result equals the stored status.

Status = dict[str, Any]

# The conditions besides `Ready`, which KubeRay does not have. `Retried` reports the last retry and
# is never removed; the others are present only while something is wrong. KubeRay's CRD drops
# conditions: transitions set them, and they are updated only if the server kept them.

RETRIED: Final = "Retried"
DASHBOARD_REACHABLE: Final = "DashboardReachable"
CLEANED_UP: Final = "CleanedUp"
CLUSTER_AS_SPECIFIED: Final = "ClusterAsSpecified"
DELETION_RULES_MATCH: Final = "DeletionRulesMatch"
NO_RULE_MATCHES: Final = "NoRuleMatches"
JOB_AS_SPECIFIED: Final = "JobAsSpecified"

_NOT_URGENT: Final = frozenset({"rayClusterStatus", "message", "conditions"})
"""Fields whose changes may be written later."""

_FAILURE_SHOWN: Final = timedelta(seconds=3)
"""Time for which a failure is shown before the end of its job is added."""

_INTERVAL: Final = 3.0
"""Seconds between writes of such changes, the interval at which KubeRay checks."""


def current_status(
    seen: JobObservation,
    deadlines: Deadlines,
    failures: tuple[Failure, ...] = (),
) -> StatusPatch:
    """Return the desired status if the state does not change."""
    wanted: Status = {"observedGeneration": seen.job.metadata.generation}
    readiness = job_readiness(seen, deadlines, failures)
    if seen.state.has_attempt:
        wanted |= {"rayClusterStatus": cluster_status_copy(seen)}
    if seen.state is State.RUNNING:
        wanted |= ray_fields(seen)
        since = dashboard_outage(seen, deadlines).since
        wanted["jobStatusCheckFailureStartTime"] = rfc3339(since) if since is not None else None
    if seen.state is State.FAILED:
        wanted |= _late_result(seen, deadlines)
    if seen.state is State.VALIDATION_FAILED and seen.problem is not None:
        wanted["message"] = str(seen.problem)
    conditions = seen.status.get("conditions")
    if conditions:  # KubeRay's CRD drops them: they would be written for ever
        wanted["conditions"] = _conditions(seen, deadlines, readiness, failures)
    present: Status = dict(seen.status)
    unmatched = unmatched_rules(seen, deadlines)
    changed, events = set(difference(present, wanted)), _events(seen, readiness, unmatched)
    told = bool(events) or _condition_states(present) != _condition_states(wanted)
    urgent = told or bool(changed - _NOT_URGENT)
    return StatusPatch(wanted, urgent=urgent, interval=_INTERVAL, events=events)


def ray_fields(seen: JobObservation) -> Status:
    """Return Ray's report about the job as KubeRay's fields; empty without a report."""
    info = seen.info
    if info is None:
        return {}
    times = {"startTime": info.start_time, "endTime": info.end_time}
    return {
        "jobStatus": info.status.value,
        "message": excerpt(info.message, characters=LONGEST_MESSAGE) or None,
        "rayJobInfo": {
            name: rfc3339(moment) for name, moment in times.items() if moment is not None
        },
    }


def _late_result(seen: JobObservation, deadlines: Deadlines) -> Status:
    """Return how the job of a failed attempt ended in Ray, if that was not known at its failure.

    It is written after the failure was there to be read for some seconds: clients of KubeRay look
    for the state in which the job was when its time was over, once a second.
    """
    info = seen.info
    if info is None or not info.status.terminal or seen.stored_result is not None:
        return {}
    if not deadlines.waited(time_of(seen.status.get("endTime")), _FAILURE_SHOWN):
        return {}
    return {name: value for name, value in ray_fields(seen).items() if name != "message"}


def cluster_status_copy(seen: JobObservation) -> Status | None:
    """Return a copy of the cluster's status; fields it no longer has are removed."""
    if seen.cluster is None:
        return None
    return replacement(seen.status.get("rayClusterStatus") or {}, status_of(seen.cluster))


def _conditions(
    seen: JobObservation,
    deadlines: Deadlines,
    readiness: JobReadiness,
    failures: tuple[Failure, ...],
) -> list[dict[str, Any]]:
    """Return the conditions while the state lasts; those of an end only report what is left."""
    conditions = _stored_conditions(seen, deadlines)
    conditions.set_if(JOB_AS_SPECIFIED, "False", "SpecChanged", _changed_fields(seen))
    conditions.set_if(JOB_STOPPED, "False", STOP_NOT_CONFIRMED, unconfirmed_stop(seen, deadlines))
    set_spec_accepted(conditions, seen.problem if _has_begun(seen.state) else None)
    if seen.state.terminal:
        unmatched = unmatched_rules(seen, deadlines)
        conditions.set_if(DELETION_RULES_MATCH, "False", NO_RULE_MATCHES, unmatched)
        blocked = readiness.message if failures else ""
        conditions.set_if(CLEANED_UP, "False", readiness.reason, blocked)
        return conditions.as_list()
    readiness.set_in(conditions)
    quiet = outage_text(seen, deadlines) if seen.state is State.RUNNING else ""
    unreachable = f"no answer {quiet}" if quiet else ""
    conditions.set_if(DASHBOARD_REACHABLE, "False", "Unreachable", unreachable)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    edited = "spec.rayClusterSpec was changed; the next attempt's cluster is created from it"
    outdated = seen.state.has_attempt and is_outdated(seen)
    conditions.set_if(CLUSTER_AS_SPECIFIED, "False", "SpecChanged", edited if outdated else "")
    return conditions.as_list()


def _stored_conditions(seen: JobObservation, deadlines: Deadlines) -> ConditionSet:
    stored = seen.status.get("conditions", ())
    return ConditionSet(stored, seen.job.metadata.generation, deadlines.now)


def _changed_fields(seen: JobObservation) -> str:
    """Return a sentence about fields that were changed after the job had been submitted."""
    has_run = seen.state.terminal or seen.state.has_attempt
    fields = changed_after_submission(seen) if has_run else []
    if not fields:
        return ""
    outlook = "the job runs as it was submitted, and only another attempt would differ"
    if seen.state.terminal:
        outlook = "a job that has ended does not run again: create a RayJob of another name"
    names = ", ".join(f"spec.{name}" for name in fields)
    return f"changed after the job had been submitted: {names}; {outlook}"


def _has_begun(state: State) -> bool:
    """Return whether a refused edit changes nothing about this state, which `Ready` explains."""
    return state.terminal or state.has_attempt or state in {State.SUSPENDING, State.SUSPENDED}


def _events(seen: JobObservation, readiness: JobReadiness, unmatched: str) -> tuple[Event, ...]:
    """Return Warning events of unknown fields and of causes that no condition reports yet."""
    stored = seen.status.get("conditions", ())
    events = unknown_field_events(stored, seen.unknown_fields) if stored else ()
    if _has_begun(seen.state):
        events += refused_edit_events(seen.problem, status_of(seen.job), seen.job.metadata)
    if unmatched and stored and find_condition(stored, DELETION_RULES_MATCH) is None:
        events += (Event("Warning", NO_RULE_MATCHES, "Reconcile", unmatched),)
    told = find_condition(stored, READY) or {}
    if not readiness.event or told.get("reason") == readiness.reason:
        return events
    return (*events, Event("Warning", readiness.event, "Reconcile", readiness.message))


def _condition_states(status: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return types and statuses: a change of only reasons and messages is not urgent."""
    return [(c.get("type"), c.get("status")) for c in status.get("conditions", ())]


# The single write of a transition: state, counters, times, attempts and messages together.
#
# Its precondition is the observed resourceVersion, so all of it happens exactly once or not at all.

ATTEMPTS_KEPT: Final = 10
"""Number of attempts that `status.attempts` keeps, for information only: nothing depends on it."""

LOG_LINES: Final = 20
LOG_CHARACTERS: Final = 4096
_CLEARED: Status = {
    "dashboardURL": None,
    "jobId": None,
    "jobStatus": None,
    "jobStatusCheckFailureStartTime": None,
    "message": None,
    "rayClusterName": None,
    "rayClusterStatus": None,
    "rayJobInfo": None,
    "reason": None,
}
"""Fields that are cleared after an attempt if another may follow (KubeRay)."""


def transition_patch(seen: JobObservation, step: DueTransition, deadlines: Deadlines) -> MergePatch:
    """Return the status write that enters the next state."""
    patch = _TransitionPatch(seen, step, deadlines)
    meta = seen.job.metadata
    status = {
        "jobDeploymentStatus": step.state.value or None,
        "observedGeneration": meta.generation,
        **patch.changes(),
        "conditions": patch.conditions(),
    }
    return status_commit(RAYJOBS, meta, "status", status, patch.event())


class _TransitionPatch:
    """The changes, conditions and event of one transition."""

    def __init__(self, seen: JobObservation, step: DueTransition, deadlines: Deadlines) -> None:
        self._seen = seen
        self._step = step
        self._now = deadlines.now
        self._deadlines = deadlines
        self._failed = max(0, seen.status.get("failed", 0)) + step.failed
        self._disrupted = seen.disrupted_attempts + step.disrupted
        self._message = ""
        if step.reason is not None:
            self._message = failure_message(seen, step.reason, deadlines)
            if step.failed and seen.disruption and not step.disrupted and self._disrupted:
                self._message += (
                    f"; a disruption ({seen.disruption}) took its head, as in {self._disrupted} "
                    "attempts before: spec.disruptionBackoffLimit is used up"
                )

    def changes(self) -> Status:  # noqa: PLR0911  one for each state
        """Return the changed fields; None for removed ones."""
        if self._step.failed:
            return self._failure()
        match self._step.state:
            case State.INITIALIZING if self._seen.state is State.NEW:
                return self._begin()
            case State.INITIALIZING:
                return {"message": None, "reason": None}
            case State.WAITING | State.RUNNING:
                return self._run()
            case State.COMPLETE:
                return self._complete()
            case State.VALIDATION_FAILED:
                return {
                    "reason": FailureReason.VALIDATION_FAILED.for_status,
                    "message": self._message,
                }
            case State.SUSPENDING:
                return self._attempt(endTime=rfc3339(self._now), result="Suspended")
            case State.SUSPENDED | State.NEW if self._seen.state is not State.NEW:
                return dict(_CLEARED)
            case _:
                return {}

    def conditions(self) -> list[dict[str, Any]]:
        """Return the conditions in the next state."""
        step, conditions = self._step, _stored_conditions(self._seen, self._deadlines)
        self._readiness().set_in(conditions)
        conditions.remove(DASHBOARD_REACHABLE)
        if not step.state.has_attempt:
            conditions.remove(CLUSTER_AS_SPECIFIED)
        runs_on = step.state is State.FAILED and self._seen.may_still_run
        stop = failed_stop(self._seen, self._deadlines) if runs_on else ""
        conditions.set_if(JOB_STOPPED, "False", STOP_NOT_CONFIRMED, stop)
        if step.state is State.RETRYING and step.reason is not None:
            conditions.set(RETRIED, "True", step.reason.title, self._retry_note())
        return conditions.as_list()

    def event(self) -> Event | None:
        """Return the event that reports the transition, None if it needs none."""
        step, seen = self._step, self._seen
        reason = step.reason.title if step.reason is not None else ""
        match step.state:
            case State.RETRYING:
                return Event("Warning", "RetryingRayJob", "Reconcile", self._retry_note())
            case State.FAILED:
                return Event("Warning", reason, "Reconcile", in_short(self._message))
            case State.VALIDATION_FAILED if seen.problem is not None:
                return Event("Warning", seen.problem.reason, "Validate", str(seen.problem))
            case State.COMPLETE if seen.submitter.fact is SubmitterFact.FAILED:
                note = f"Ray's result stands; the submitter failed: {seen.submitter.failure}"
                return Event("Warning", "SubmitterFailed", "Reconcile", note)
            case _:
                return None

    def _begin(self) -> Status:
        """Return the names of the attempt, stored before anything is created or submitted."""
        seen, spec = self._seen, self._seen.spec
        interactive = spec.submission_mode is SubmissionMode.INTERACTIVE
        cluster = spec.selected_cluster or seen.next_cluster
        job_id = seen.given_id or ("" if interactive else seen.next_submission_id)
        return {
            "jobId": job_id or None,
            "rayClusterName": cluster,
            "startTime": rfc3339(self._now),
            "reason": None,
            "message": None,
            "attempts": self._with_new_attempt(cluster, job_id),
        }

    def _run(self) -> Status:
        seen = self._seen
        changes: Status = {
            "reason": None,
            "message": None,
            "rayClusterStatus": cluster_status_copy(seen),
        }
        if seen.head is not None:
            changes["dashboardURL"] = seen.head.address
        if seen.mode is SubmissionMode.INTERACTIVE and seen.spec.job_id:
            changes["jobId"] = seen.spec.job_id
            changes |= self._attempt(jobId=seen.spec.job_id)
        return changes

    def _failure(self) -> Status:
        """Return the end of a failed attempt; the only place that counts it."""
        seen, reason = self._seen, self._step.reason
        assert reason is not None
        changes = ray_fields(seen) | {
            "failed": self._failed,
            **({"disrupted": self._disrupted} if self._disrupted else {}),
            "endTime": rfc3339(self._now),
            "reason": reason.for_status,
            "message": self._message,
            **self._attempt(
                endTime=rfc3339(self._now),
                result="Failed",
                reason=reason.title,
                message=in_short(self._message),
                disruption=seen.disruption,
                log=_log(seen) or self._kept(),
            ),
        }
        if reason is FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED:
            changes["jobStatus"] = JobStatus.FAILED.value
        return changes

    def _kept(self) -> str:
        """Return a long message of an attempt after which the next one clears the status's."""
        is_long = self._step.state is State.RETRYING and "\n" in self._message
        return self._message if is_long else ""

    def _complete(self) -> Status:
        seen, result = self._seen, self._seen.result
        ended = "Succeeded" if result is JobStatus.SUCCEEDED else "Stopped"
        reason = self._step.reason.for_status if self._step.reason is not None else None
        changes = ray_fields(seen) | {
            "endTime": rfc3339(self._now),
            "reason": reason,
            "jobStatusCheckFailureStartTime": None,
            **self._attempt(endTime=rfc3339(self._now), result=ended, reason=reason),
        }
        if result is JobStatus.SUCCEEDED:
            changes["succeeded"] = 1
        return changes

    def _with_new_attempt(self, cluster: str, job_id: str) -> list[Status]:
        present = self._seen.status.get("attempts", ())
        numbers = (each.get("number") for each in present)
        last = max((one for one in numbers if isinstance(one, int)), default=0)
        attempt = {
            "number": max(last, self._seen.status.get("failed", 0)) + 1,
            "rayClusterName": cluster,
            "jobId": job_id,
            "startTime": rfc3339(self._now),
        }
        return [*present, attempt][-ATTEMPTS_KEPT:]

    def _attempt(self, **changes: Any) -> Status:
        """Return the list with the present attempt changed; empty if the CRD keeps none.

        Empty values are left out.
        """
        present: list[Status] = list(self._seen.status.get("attempts", ()))
        if not present or present[-1].get("rayClusterName") != self._seen.cluster_name:
            return {}
        changed = present[-1] | {name: value for name, value in changes.items() if value}
        return {"attempts": [*present[:-1], changed][-ATTEMPTS_KEPT:]}

    def _readiness(self) -> JobReadiness:
        state, seen = self._step.state, self._seen
        match state:
            case State.COMPLETE:
                result = seen.result or JobStatus.SUCCEEDED
                message = f"Ray reports that the job ended: {result.value}"
                return JobReadiness(f"Job{result.value.capitalize()}", message, status="True")
            case State.SUSPENDED:
                return JobReadiness("Suspended", "spec.suspend is true")
            case State.INITIALIZING:
                name = seen.next_cluster or seen.cluster_name
                message = f"cluster {name} is being created"
                return JobReadiness("RayClusterNotReady", message)
            case State.RUNNING:
                return JobReadiness("JobNotSubmitted", "the job is about to be submitted")
            case State.WAITING:
                return JobReadiness("WaitingForJobId", "submit the job and set spec.jobId")
            case _:
                reason = self._step.reason.title if self._step.reason else state.title
                return JobReadiness(reason, in_short(self._message))

    def _retry_note(self) -> str:
        spec = self._seen.spec
        if self._step.disrupted:
            return (
                f"attempt {self._failed} lost its head to a disruption ({self._seen.disruption}) "
                f"and does not count: {self._disrupted} of {spec.disruption_backoff_limit} that "
                f"spec.disruptionBackoffLimit allows: {in_short(self._message)}; the next one "
                "starts on a fresh cluster"
            )
        of, counted = spec.backoff_limit + 1, self._failed - self._disrupted
        reason = self._step.reason.title if self._step.reason is not None else ""
        return (
            f"attempt {counted} of {of} failed ({reason}): {in_short(self._message)}; "
            "the next one starts on a fresh cluster"
        )


def _log(seen: JobObservation) -> str:
    """Return the end of the submitter's log, or why it is not available."""
    if seen.log is None:
        return ""
    if seen.log.unavailable:
        return f"not available: {seen.log.unavailable}"
    return last_lines(seen.log.text, lines=LOG_LINES, characters=LOG_CHARACTERS)
