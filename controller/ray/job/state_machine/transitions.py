"""THE table: what a RayJob does next, and the one place where a retry is decided.

Read it from top to bottom; docs/rayjob.md has it as a picture. The first row of the present state
whose condition holds counts; if none does, the job stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.ray.job.state_machine import predicates as when
from controller.ray.job.state_machine.reasons import Reason
from controller.ray.job.state_machine.states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.ray.job.state_machine.facts import Facts

    Predicate = Callable[[Facts], bool]


@dataclass(frozen=True, slots=True)
class Enter:
    """Go to a state; `reason` is told where KubeRay tells one."""

    state: State
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """The attempt has failed: an event, not a state. `after_failure` says what follows."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Stay:
    """Nothing of what the rows below ask for can matter yet."""


@dataclass(frozen=True, slots=True)
class Transition:
    """In `state`, if `when` holds, do `then`."""

    state: State
    when: Predicate
    then: Enter | Fail | Stay


@dataclass(frozen=True, slots=True)
class Step:
    """A transition that is due.

    Attributes:
        state: the next state.
        reason: why, where there is one.
        failed: whether an attempt fails with it.
    """

    state: State
    reason: Reason | None = None
    failed: bool = False


_STAY: Final = Stay()

TABLE: Final[tuple[Transition, ...]] = (
    # New: nothing exists yet.
    Transition(
        State.NEW, when.is_invalid, Enter(State.VALIDATION_FAILED, Reason.VALIDATION_FAILED)
    ),
    Transition(State.NEW, when.is_to_be_suspended, Enter(State.SUSPENDED)),
    Transition(State.NEW, when.always, Enter(State.INITIALIZING)),
    # Initializing: the names are stored, the cluster is made.
    Transition(
        State.INITIALIZING,
        when.is_invalid,
        Enter(State.VALIDATION_FAILED, Reason.VALIDATION_FAILED),
    ),
    Transition(State.INITIALIZING, when.is_to_be_suspended, Enter(State.SUSPENDING)),
    Transition(State.INITIALIZING, when.deadline_has_passed, Fail(Reason.DEADLINE_EXCEEDED)),
    Transition(
        State.INITIALIZING,
        when.pre_running_deadline_has_passed,
        Fail(Reason.PRE_RUNNING_DEADLINE_EXCEEDED),
    ),
    Transition(State.INITIALIZING, when.is_ready_and_interactive, Enter(State.WAITING)),
    Transition(State.INITIALIZING, when.is_ready, Enter(State.RUNNING)),
    # Waiting: for a person to submit the job and to set spec.jobId.
    Transition(
        State.WAITING, when.is_invalid, Enter(State.VALIDATION_FAILED, Reason.VALIDATION_FAILED)
    ),
    Transition(State.WAITING, when.is_to_be_suspended, Enter(State.SUSPENDING)),
    Transition(
        State.WAITING,
        when.pre_running_deadline_has_passed,
        Fail(Reason.PRE_RUNNING_DEADLINE_EXCEEDED),
    ),
    Transition(State.WAITING, when.cluster_is_lost, Fail(Reason.HEAD_LOST)),
    Transition(State.WAITING, when.id_is_given, Enter(State.RUNNING)),
    # Running: what Ray says stands, whatever else has happened meanwhile.
    Transition(State.RUNNING, when.has_succeeded, Enter(State.COMPLETE)),
    Transition(
        State.RUNNING,
        when.has_succeeded_but_submitter_does_not_end,
        Enter(State.COMPLETE, Reason.TRANSITION_GRACE_PERIOD_EXCEEDED),
    ),
    Transition(
        State.RUNNING, when.is_invalid, Enter(State.VALIDATION_FAILED, Reason.VALIDATION_FAILED)
    ),
    Transition(State.RUNNING, when.has_failed, Fail(Reason.APP_FAILED)),
    Transition(
        State.RUNNING,
        when.has_failed_but_submitter_does_not_end,
        Fail(Reason.TRANSITION_GRACE_PERIOD_EXCEEDED),
    ),
    Transition(State.RUNNING, when.has_ended_and_submitter_still_runs, _STAY),
    Transition(State.RUNNING, when.is_to_be_suspended, Enter(State.SUSPENDING)),
    Transition(
        State.RUNNING, when.deadline_has_passed_and_is_stopped, Fail(Reason.DEADLINE_EXCEEDED)
    ),
    Transition(State.RUNNING, when.deadline_has_passed, _STAY),
    Transition(State.RUNNING, when.was_stopped, Enter(State.COMPLETE)),
    Transition(
        State.RUNNING,
        when.was_stopped_but_submitter_does_not_end,
        Enter(State.COMPLETE, Reason.TRANSITION_GRACE_PERIOD_EXCEEDED),
    ),
    Transition(State.RUNNING, when.was_stopped_and_submitter_still_runs, _STAY),
    Transition(
        State.RUNNING,
        when.pre_running_deadline_has_passed_without_submitter,
        Fail(Reason.PRE_RUNNING_DEADLINE_EXCEEDED),
    ),
    Transition(State.RUNNING, when.submission_is_refused, Fail(Reason.SUBMISSION_FAILED)),
    Transition(State.RUNNING, when.cluster_is_lost, Fail(Reason.HEAD_LOST)),
    Transition(State.RUNNING, when.head_has_lost_its_state, Fail(Reason.HEAD_LOST)),
    Transition(State.RUNNING, when.new_head_does_not_know_the_job, Fail(Reason.HEAD_LOST)),
    Transition(State.RUNNING, when.head_is_lost_and_does_not_answer, Fail(Reason.HEAD_LOST)),
    Transition(State.RUNNING, when.ray_no_longer_knows_the_job, Fail(Reason.APP_FAILED)),
    Transition(State.RUNNING, when.submitter_failed_to_submit, Fail(Reason.SUBMISSION_FAILED)),
    Transition(
        State.RUNNING,
        when.submitter_ended_without_a_job,
        Fail(Reason.TRANSITION_GRACE_PERIOD_EXCEEDED),
    ),
    Transition(
        State.RUNNING,
        when.submitter_ended_and_dashboard_is_unreachable,
        Fail(Reason.TRANSITION_GRACE_PERIOD_EXCEEDED),
    ),
    Transition(
        State.RUNNING,
        when.dashboard_is_unreachable,
        Fail(Reason.STATUS_CHECK_TIMEOUT_EXCEEDED),
    ),
    # Suspending and Retrying: once begun, carried through, whatever the specification says.
    Transition(State.SUSPENDING, when.nothing_is_left, Enter(State.SUSPENDED)),
    Transition(State.RETRYING, when.nothing_is_left, Enter(State.NEW)),
    # Suspended: until somebody resumes it.
    Transition(
        State.SUSPENDED, when.is_invalid, Enter(State.VALIDATION_FAILED, Reason.VALIDATION_FAILED)
    ),
    Transition(State.SUSPENDED, when.is_resumed, Enter(State.NEW)),
    # ValidationFailed: left as soon as the specification is valid.
    Transition(
        State.VALIDATION_FAILED, when.is_valid_again_with_a_submission, Enter(State.RUNNING)
    ),
    Transition(
        State.VALIDATION_FAILED, when.is_valid_again_with_an_attempt, Enter(State.INITIALIZING)
    ),
    Transition(State.VALIDATION_FAILED, when.is_valid_again, Enter(State.NEW)),
    # Complete and Failed are terminal: they have no rows.
)


def next_step(state: State, facts: Facts) -> Step | None:
    """The transition that is due; None if the job stays where it is."""
    if facts.deleted:
        return None  # only the finalizer matters now
    for row in _ROWS[state]:
        if row.when(facts):
            return _step(row.then, facts)
    return None


def after_failure(reason: Reason, *, failed: int, backoff_limit: int) -> State:
    """Whether a failed attempt is retried: THE decision, made nowhere else.

    Args:
        reason: why the attempt failed.
        failed: how many attempts have failed, this one included.
        backoff_limit: how many retries the user allows.
    """
    if reason.retriable and failed < backoff_limit + 1:
        return State.RETRYING
    return State.FAILED


def _step(then: Enter | Fail | Stay, facts: Facts) -> Step | None:
    match then:
        case Enter(state, reason):
            return Step(state, reason)
        case Fail(reason):
            state = after_failure(
                reason, failed=facts.failed + 1, backoff_limit=facts.backoff_limit
            )
            return Step(state, reason, failed=True)
        case Stay():
            return None


_ROWS: Final = {state: tuple(row for row in TABLE if row.state is state) for state in State}
