"""The table of a RayJob: from each state, which facts lead where. A retry is decided here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from controller.ray.job.facts import (
    ClusterFact,
    FailureReason,
    HeadFact,
    JobFacts,
    OutageLength,
    RayFact,
    State,
    SubmitterFact,
)

# The state after a failed attempt: `Retrying` or `Failed`.


def after_failure(
    reason: FailureReason, *, failed: int, backoff_limit: int, disrupted: bool = False
) -> State:
    """Return the state after a failed attempt: the only place that decides a retry.

    Args:
        reason: reason of the failure.
        failed: number of failed attempts that count, including this one.
        backoff_limit: maximum retries that the user allows.
        disrupted: whether this one failed because of a disruption, and does not count.
    """
    if reason.retriable and (disrupted or failed < backoff_limit + 1):
        return State.RETRYING
    return State.FAILED


def is_lost_to_disruption(reason: FailureReason, facts: JobFacts) -> bool:
    """Return whether an attempt failed because its head was taken away, and does not count.

    While a head is taken away Ray may report the job as failed. On a head that has taken over with
    its state, it fails for reasons of its own.
    """
    if not reason.retriable or not facts.disrupted:
        return False
    return reason is FailureReason.HEAD_LOST or facts.head is not HeadFact.REPLACED


# The conditions of transitions, one function each; docs/rayjob.md shows their names.

_ENDED: Final = frozenset({SubmitterFact.SUCCEEDED, SubmitterFact.FAILED})
_LOST_CLUSTER: Final = frozenset({ClusterFact.ABSENT, ClusterFact.TERMINATING})
_LOST_HEAD: Final = frozenset(
    {HeadFact.GONE, HeadFact.TERMINATING, HeadFact.REPLACED, HeadFact.REPLACED_WITHOUT_STATE}
)


def always(_: JobFacts) -> bool:
    """True for all facts."""
    return True


def is_invalid(facts: JobFacts) -> bool:
    """The specification is not valid."""
    return not facts.valid


def is_invalid_and_not_suspended(facts: JobFacts) -> bool:
    """The specification is not valid, and does not ask for the suspension that there is."""
    return not facts.valid and not facts.suspend


def is_to_be_suspended(facts: JobFacts) -> bool:
    """`spec.suspend` is true."""
    return facts.suspend


def is_resumed(facts: JobFacts) -> bool:
    """`spec.suspend` is false again."""
    return not facts.suspend


def deadline_has_passed(facts: JobFacts) -> bool:
    """The attempt took longer than `activeDeadlineSeconds`."""
    return facts.deadline_passed


def pre_running_deadline_has_passed(facts: JobFacts) -> bool:
    """The job did not get to run within `preRunningDeadlineSeconds`."""
    return facts.pre_running_deadline_passed


def pre_running_deadline_has_passed_without_submitter(facts: JobFacts) -> bool:
    """`preRunningDeadlineSeconds` have passed, and neither a pod nor the operator submits."""
    absent = facts.submitter is SubmitterFact.ABSENT or facts.without_pod
    unsubmitted = facts.records_late and facts.head is HeadFact.UNRECORDED
    waiting = unsubmitted or (facts.head is HeadFact.SAME and absent)
    unknown = not facts.was_known and facts.ray in {RayFact.NO_ANSWER, RayFact.NOT_FOUND}
    return waiting and unknown and facts.pre_running_deadline_passed


def is_ready(facts: JobFacts) -> bool:
    """Specification and cluster are ready, and the head to run on is recorded, or will be."""
    recorded = facts.head is HeadFact.SAME
    recordable = facts.records_late and facts.head is HeadFact.UNRECORDED
    return facts.valid and facts.cluster is ClusterFact.READY and (recorded or recordable)


def is_ready_and_interactive(facts: JobFacts) -> bool:
    """The cluster is ready, the head is recorded, and a person will submit the job."""
    return facts.interactive and is_ready(facts)


def id_is_given(facts: JobFacts) -> bool:
    """`spec.jobId` is set, and the head that the attempt runs on is recorded."""
    return facts.valid and facts.id_given and facts.head is HeadFact.SAME


def cluster_is_lost(facts: JobFacts) -> bool:
    """The cluster has been deleted or is being deleted."""
    return facts.cluster in _LOST_CLUSTER


def head_is_lost_for_good(facts: JobFacts) -> bool:
    """The cluster was ready once, has lost its head since, and makes no other."""
    return facts.cluster is ClusterFact.HEADLESS


def has_succeeded(facts: JobFacts) -> bool:
    """Ray reports SUCCEEDED, and the submitter need not be waited for."""
    return facts.ray is RayFact.SUCCEEDED and _submitter_is_done(facts)


def has_failed(facts: JobFacts) -> bool:
    """Ray reports FAILED, and the submitter need not be waited for."""
    return facts.ray is RayFact.FAILED and _submitter_is_done(facts)


def was_stopped(facts: JobFacts) -> bool:
    """Ray reports STOPPED, and the submitter need not be waited for."""
    return facts.ray is RayFact.STOPPED and _submitter_is_done(facts)


def has_succeeded_but_submitter_does_not_end(facts: JobFacts) -> bool:
    """The job succeeded a grace period ago, and the submitter still runs."""
    return facts.ray is RayFact.SUCCEEDED and facts.result_grace_passed


def has_failed_but_submitter_does_not_end(facts: JobFacts) -> bool:
    """The job failed a grace period ago, and the submitter still runs."""
    return facts.ray is RayFact.FAILED and facts.result_grace_passed


def was_stopped_but_submitter_does_not_end(facts: JobFacts) -> bool:
    """The job was stopped a grace period ago, and the submitter still runs."""
    return facts.ray is RayFact.STOPPED and facts.result_grace_passed


def has_ended_and_submitter_still_runs(facts: JobFacts) -> bool:
    """Ray reports SUCCEEDED or FAILED; the submitter still prints the rest of the log."""
    return facts.ray in {RayFact.SUCCEEDED, RayFact.FAILED}


def was_stopped_and_submitter_still_runs(facts: JobFacts) -> bool:
    """Ray reports STOPPED; the submitter still prints the rest of the log."""
    return facts.ray is RayFact.STOPPED


def submission_is_refused(facts: JobFacts) -> bool:
    """Ray refused the submission or did not accept it in time, and does not know the job."""
    return facts.submission_refused and facts.ray is RayFact.NOT_FOUND


def head_has_lost_its_state(facts: JobFacts) -> bool:
    """The head was replaced or restarted, and its Ray has lost all jobs.

    The attempt fails at once, because a submitter that still runs could submit the job again.
    """
    return facts.head is HeadFact.REPLACED_WITHOUT_STATE


def new_head_does_not_know_the_job(facts: JobFacts) -> bool:
    """The head was replaced with its state kept, and the new one does not know the job."""
    return facts.head is HeadFact.REPLACED and facts.ray is RayFact.NOT_FOUND


def head_is_lost_and_does_not_answer(facts: JobFacts) -> bool:
    """The head is gone, terminating or replaced, and no head has answered in time."""
    return (
        facts.head in _LOST_HEAD
        and facts.ray is RayFact.NO_ANSWER
        and facts.outage >= OutageLength.TOO_LONG_FOR_LOST_HEAD
    )


def ray_no_longer_knows_the_job(facts: JobFacts) -> bool:
    """The same head knew the job before and does not now: the job was deleted in Ray."""
    return facts.was_known and facts.ray is RayFact.NOT_FOUND


def submitter_failed_to_submit(facts: JobFacts) -> bool:
    """The submitter failed 30 s ago or more, and a healthy dashboard does not know the job."""
    return facts.submitter is SubmitterFact.FAILED and _no_job_in_time(facts)


def submitter_ended_without_a_job(facts: JobFacts) -> bool:
    """The submitter succeeded 30 s ago or more, and a healthy dashboard does not know the job."""
    return facts.submitter is SubmitterFact.SUCCEEDED and _no_job_in_time(facts)


def submitter_ended_and_dashboard_is_unreachable(facts: JobFacts) -> bool:
    """The submitter ended 30 s ago or more, and the dashboard has not answered for too long."""
    return (
        facts.submitter in _ENDED
        and facts.submitter_grace_passed
        and dashboard_is_unreachable(facts)
    )


def dashboard_is_unreachable(facts: JobFacts) -> bool:
    """The dashboard has not answered for too long."""
    return facts.ray is RayFact.NO_ANSWER and facts.outage >= OutageLength.TOO_LONG


def nothing_is_left(facts: JobFacts) -> bool:
    """The cluster and the submitter of the attempt are gone."""
    return not facts.leftovers


def is_valid_again(facts: JobFacts) -> bool:
    """The specification was corrected."""
    return facts.valid


def has_a_submission(facts: JobFacts) -> bool:
    """The job may have been submitted: it is followed, and not submitted again."""
    return facts.may_be_submitted


def has_an_attempt(facts: JobFacts) -> bool:
    """An attempt was being prepared: continue it."""
    return facts.has_attempt


def _submitter_is_done(facts: JobFacts) -> bool:
    """Return whether the submitter, which now only prints the log, need not be waited for."""
    return facts.submitter is not SubmitterFact.ACTIVE or facts.suspend


def _no_job_in_time(facts: JobFacts) -> bool:
    return facts.submitter_grace_passed and facts.ray is RayFact.NOT_FOUND


# The table of transitions: the only place that decides a RayJob's next state.
#
# Of the rows for the present state, the first whose condition holds applies. If none does, the
# state does not change. docs/rayjob.md has a picture of the table.


class Enter(Struct, frozen=True):
    """Enter a state; `reason` is set where KubeRay sets one."""

    state: State
    reason: FailureReason | None = None


class Fail(Struct, frozen=True):
    """Record a failed attempt; `after_failure` decides the next state."""

    reason: FailureReason


class Stay(Struct, frozen=True):
    """Keep the state and skip the rows below."""


class DueTransition(Struct, frozen=True):
    """A transition that is due.

    Attributes:
        failed: whether the attempt fails.
        disrupted: whether it failed because of a disruption, and does not count.
    """

    state: State
    reason: FailureReason | None = None
    failed: bool = False
    disrupted: bool = False


Row: TypeAlias = tuple[Callable[[JobFacts], bool], Enter | Fail | Stay]
"""A condition, and what is done if it holds."""

_LATE: Final = FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED
_TOO_LATE_TO_RUN: Final = Fail(FailureReason.PRE_RUNNING_DEADLINE_EXCEEDED)
_INVALID: Final = Enter(State.VALIDATION_FAILED, FailureReason.VALIDATION_FAILED)

TABLE: Final[Mapping[State, tuple[Row, ...]]] = {
    # Nothing has been created.
    State.NEW: (
        (is_invalid, _INVALID),
        (is_to_be_suspended, Enter(State.SUSPENDED)),
        (always, Enter(State.INITIALIZING)),
    ),
    # The names are stored, and the cluster is being created. What has begun is followed to its end
    # also while the specification is invalid; only what is new waits.
    State.INITIALIZING: (
        (is_to_be_suspended, Enter(State.SUSPENDING)),
        (deadline_has_passed, Fail(FailureReason.DEADLINE_EXCEEDED)),
        (pre_running_deadline_has_passed, _TOO_LATE_TO_RUN),
        (head_is_lost_for_good, Fail(FailureReason.HEAD_LOST)),
        (is_ready_and_interactive, Enter(State.WAITING)),
        (is_ready, Enter(State.RUNNING)),
    ),
    # For a person to submit the job and to set spec.jobId.
    State.WAITING: (
        (is_to_be_suspended, Enter(State.SUSPENDING)),
        (pre_running_deadline_has_passed, _TOO_LATE_TO_RUN),
        (cluster_is_lost, Fail(FailureReason.HEAD_LOST)),
        (id_is_given, Enter(State.RUNNING)),
    ),
    # A result that Ray reports comes first.
    State.RUNNING: (
        (has_succeeded, Enter(State.COMPLETE)),
        (has_succeeded_but_submitter_does_not_end, Enter(State.COMPLETE, _LATE)),
        (has_failed, Fail(FailureReason.APP_FAILED)),
        (has_failed_but_submitter_does_not_end, Fail(_LATE)),
        (has_ended_and_submitter_still_runs, Stay()),
        (is_to_be_suspended, Enter(State.SUSPENDING)),
        (deadline_has_passed, Fail(FailureReason.DEADLINE_EXCEEDED)),
        (was_stopped, Enter(State.COMPLETE)),
        (was_stopped_but_submitter_does_not_end, Enter(State.COMPLETE, _LATE)),
        (was_stopped_and_submitter_still_runs, Stay()),
        (pre_running_deadline_has_passed_without_submitter, _TOO_LATE_TO_RUN),
        (submission_is_refused, Fail(FailureReason.SUBMISSION_FAILED)),
        (cluster_is_lost, Fail(FailureReason.HEAD_LOST)),
        (head_has_lost_its_state, Fail(FailureReason.HEAD_LOST)),
        (new_head_does_not_know_the_job, Fail(FailureReason.HEAD_LOST)),
        (head_is_lost_and_does_not_answer, Fail(FailureReason.HEAD_LOST)),
        (ray_no_longer_knows_the_job, Fail(FailureReason.APP_FAILED)),
        (submitter_failed_to_submit, Fail(FailureReason.SUBMISSION_FAILED)),
        (submitter_ended_without_a_job, Fail(FailureReason.APP_FAILED)),
        (submitter_ended_and_dashboard_is_unreachable, Fail(_LATE)),
        (dashboard_is_unreachable, Fail(FailureReason.STATUS_CHECK_TIMEOUT_EXCEEDED)),
    ),
    # Completed whatever the specification says.
    State.SUSPENDING: ((nothing_is_left, Enter(State.SUSPENDED)),),
    State.RETRYING: ((nothing_is_left, Enter(State.NEW)),),
    # Until somebody resumes it.
    State.SUSPENDED: (
        (is_invalid_and_not_suspended, _INVALID),
        (is_resumed, Enter(State.NEW)),
    ),
    # Until the specification is valid, unless another operator left an attempt.
    State.VALIDATION_FAILED: (
        (has_a_submission, Enter(State.RUNNING)),
        (has_an_attempt, Enter(State.INITIALIZING)),
        (is_valid_again, Enter(State.NEW)),
    ),
    # Complete and Failed are terminal: they have no rows.
}


def next_step(state: State, facts: JobFacts) -> DueTransition | None:
    """Return the transition that is due; None if the state does not change."""
    if facts.deleted:
        return None  # only the finalizer matters
    for when, then in TABLE.get(state, ()):
        if when(facts):
            return _step(then, facts)
    return None


def _step(then: Enter | Fail | Stay, facts: JobFacts) -> DueTransition | None:
    match then:
        case Enter(state, reason):
            return DueTransition(state, reason)
        case Fail(reason):
            disrupted = is_lost_to_disruption(reason, facts)
            limit, failed = facts.backoff_limit, facts.failed + 1
            state = after_failure(reason, failed=failed, backoff_limit=limit, disrupted=disrupted)
            return DueTransition(state, reason, failed=True, disrupted=disrupted)
        case Stay():
            return None
