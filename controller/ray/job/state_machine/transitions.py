"""The table of transitions: the only place that decides a RayJob's next state and its retries.

Of the rows for the present state, the first whose condition holds applies. If none does, the
state does not change. docs/rayjob.md has a picture of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.ray.job.state_machine import predicates as when
from controller.ray.job.state_machine.reasons import FailureReason
from controller.ray.job.states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.ray.job.state_machine.facts import JobFacts

    Predicate = Callable[[JobFacts], bool]


@dataclass(frozen=True, slots=True)
class Enter:
    """Enter a state; `reason` is set where KubeRay sets one."""

    state: State
    reason: FailureReason | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """Record a failed attempt; `after_failure` decides the next state."""

    reason: FailureReason


@dataclass(frozen=True, slots=True)
class Stay:
    """Keep the state and skip the rows below."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One row: in `state`, if `when` holds, perform `then`."""

    state: State
    when: Predicate
    then: Enter | Fail | Stay


@dataclass(frozen=True, slots=True)
class DueTransition:
    """A transition that is due.

    Attributes:
        state: the next state.
        reason: reason of the transition, if it has one.
        failed: whether the attempt fails.
    """

    state: State
    reason: FailureReason | None = None
    failed: bool = False


_STAY: Final = Stay()
_INVALID: Final = Enter(State.VALIDATION_FAILED, FailureReason.VALIDATION_FAILED)

TABLE: Final[tuple[Transition, ...]] = (
    # New: nothing has been created.
    Transition(State.NEW, when.is_invalid, _INVALID),
    Transition(State.NEW, when.is_to_be_suspended, Enter(State.SUSPENDED)),
    Transition(State.NEW, when.always, Enter(State.INITIALIZING)),
    # Initializing: the names are stored, and the cluster is being created. What has begun is
    # followed to its end also while the specification is invalid; only what is new waits.
    Transition(State.INITIALIZING, when.is_to_be_suspended, Enter(State.SUSPENDING)),
    Transition(State.INITIALIZING, when.deadline_has_passed, Fail(FailureReason.DEADLINE_EXCEEDED)),
    Transition(
        State.INITIALIZING,
        when.pre_running_deadline_has_passed,
        Fail(FailureReason.PRE_RUNNING_DEADLINE_EXCEEDED),
    ),
    Transition(State.INITIALIZING, when.head_is_lost_for_good, Fail(FailureReason.HEAD_LOST)),
    Transition(State.INITIALIZING, when.is_ready_and_interactive, Enter(State.WAITING)),
    Transition(State.INITIALIZING, when.is_ready, Enter(State.RUNNING)),
    # Waiting: for a person to submit the job and to set spec.jobId.
    Transition(State.WAITING, when.is_to_be_suspended, Enter(State.SUSPENDING)),
    Transition(
        State.WAITING,
        when.pre_running_deadline_has_passed,
        Fail(FailureReason.PRE_RUNNING_DEADLINE_EXCEEDED),
    ),
    Transition(State.WAITING, when.cluster_is_lost, Fail(FailureReason.HEAD_LOST)),
    Transition(State.WAITING, when.id_is_given, Enter(State.RUNNING)),
    # Running: a result that Ray reports comes first.
    Transition(State.RUNNING, when.has_succeeded, Enter(State.COMPLETE)),
    Transition(
        State.RUNNING,
        when.has_succeeded_but_submitter_does_not_end,
        Enter(State.COMPLETE, FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED),
    ),
    Transition(State.RUNNING, when.has_failed, Fail(FailureReason.APP_FAILED)),
    Transition(
        State.RUNNING,
        when.has_failed_but_submitter_does_not_end,
        Fail(FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED),
    ),
    Transition(State.RUNNING, when.has_ended_and_submitter_still_runs, _STAY),
    Transition(State.RUNNING, when.is_to_be_suspended, Enter(State.SUSPENDING)),
    Transition(State.RUNNING, when.deadline_has_passed, Fail(FailureReason.DEADLINE_EXCEEDED)),
    Transition(State.RUNNING, when.was_stopped, Enter(State.COMPLETE)),
    Transition(
        State.RUNNING,
        when.was_stopped_but_submitter_does_not_end,
        Enter(State.COMPLETE, FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED),
    ),
    Transition(State.RUNNING, when.was_stopped_and_submitter_still_runs, _STAY),
    Transition(
        State.RUNNING,
        when.pre_running_deadline_has_passed_without_submitter,
        Fail(FailureReason.PRE_RUNNING_DEADLINE_EXCEEDED),
    ),
    Transition(State.RUNNING, when.submission_is_refused, Fail(FailureReason.SUBMISSION_FAILED)),
    Transition(State.RUNNING, when.cluster_is_lost, Fail(FailureReason.HEAD_LOST)),
    Transition(State.RUNNING, when.head_has_lost_its_state, Fail(FailureReason.HEAD_LOST)),
    Transition(State.RUNNING, when.new_head_does_not_know_the_job, Fail(FailureReason.HEAD_LOST)),
    Transition(State.RUNNING, when.head_is_lost_and_does_not_answer, Fail(FailureReason.HEAD_LOST)),
    Transition(State.RUNNING, when.ray_no_longer_knows_the_job, Fail(FailureReason.APP_FAILED)),
    Transition(
        State.RUNNING, when.submitter_failed_to_submit, Fail(FailureReason.SUBMISSION_FAILED)
    ),
    Transition(State.RUNNING, when.submitter_ended_without_a_job, Fail(FailureReason.APP_FAILED)),
    Transition(
        State.RUNNING,
        when.submitter_ended_and_dashboard_is_unreachable,
        Fail(FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED),
    ),
    Transition(
        State.RUNNING,
        when.dashboard_is_unreachable,
        Fail(FailureReason.STATUS_CHECK_TIMEOUT_EXCEEDED),
    ),
    # Suspending and Retrying: completed whatever the specification says.
    Transition(State.SUSPENDING, when.nothing_is_left, Enter(State.SUSPENDED)),
    Transition(State.RETRYING, when.nothing_is_left, Enter(State.NEW)),
    # Suspended: until somebody resumes it.
    Transition(State.SUSPENDED, when.is_invalid, _INVALID),
    Transition(State.SUSPENDED, when.is_resumed, Enter(State.NEW)),
    # ValidationFailed: until the specification is valid, unless another operator left an attempt.
    Transition(State.VALIDATION_FAILED, when.has_a_submission, Enter(State.RUNNING)),
    Transition(State.VALIDATION_FAILED, when.has_an_attempt, Enter(State.INITIALIZING)),
    Transition(State.VALIDATION_FAILED, when.is_valid_again, Enter(State.NEW)),
    # Complete and Failed are terminal: they have no rows.
)


def next_step(state: State, facts: JobFacts) -> DueTransition | None:
    """Return the transition that is due; None if the state does not change."""
    if facts.deleted:
        return None  # only the finalizer matters
    for row in _ROWS[state]:
        if row.when(facts):
            return _step(row.then, facts)
    return None


def after_failure(reason: FailureReason, *, failed: int, backoff_limit: int) -> State:
    """Return the state after a failed attempt: the only place that decides a retry.

    Args:
        reason: reason of the failure.
        failed: number of failed attempts, including this one.
        backoff_limit: maximum retries that the user allows.
    """
    if reason.retriable and failed < backoff_limit + 1:
        return State.RETRYING
    return State.FAILED


def _step(then: Enter | Fail | Stay, facts: JobFacts) -> DueTransition | None:
    match then:
        case Enter(state, reason):
            return DueTransition(state, reason)
        case Fail(reason):
            state = after_failure(
                reason, failed=facts.failed + 1, backoff_limit=facts.backoff_limit
            )
            return DueTransition(state, reason, failed=True)
        case Stay():
            return None


_ROWS: Final = {state: tuple(row for row in TABLE if row.state is state) for state in State}
