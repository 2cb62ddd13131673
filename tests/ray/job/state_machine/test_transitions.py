"""The table of transitions: row by row where it matters, and every combination of facts."""

from __future__ import annotations

from typing import Any

import pytest

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
from controller.ray.job.table import TABLE, DueTransition, Fail, after_failure, next_step
from tests.ray.job.state_machine.exploring import explored

RUNNING: dict[str, Any] = {
    "has_attempt": True,
    "cluster": ClusterFact.READY,
    "head": HeadFact.SAME,
    "submitter": SubmitterFact.ACTIVE,
    "ray": RayFact.ACTIVE,
    "leftovers": True,
}
NEVER_RETRIED = {
    FailureReason.VALIDATION_FAILED,
    FailureReason.DEADLINE_EXCEEDED,
    FailureReason.STATUS_CHECK_TIMEOUT_EXCEEDED,
}


def running(**facts: Any) -> DueTransition | None:
    return next_step(State.RUNNING, JobFacts(**{**RUNNING, **facts}))


@pytest.mark.slow
@pytest.mark.parametrize("state", State)
def test_the_table_is_total_and_gives_a_step_or_nothing(state: State):
    found = 0
    for known, step in explored(state):
        found += 1
        assert step is None or step.state is not state, known
    assert found > 0


@pytest.mark.parametrize("state", [state for state in State if state.terminal])
def test_terminal_states_are_terminal(state: State):
    assert all(step is None for _, step in explored(state))


@pytest.mark.slow
@pytest.mark.parametrize("state", State)
def test_nothing_moves_while_the_job_is_being_deleted(state: State):
    for known, step in explored(state):
        assert step is None or not known["deleted"]


@pytest.mark.slow
def test_a_terminal_state_can_be_reached_from_every_state():
    leads: dict[State, set[State]] = {state: set() for state in State}
    for state in State:
        for _, step in explored(state):
            if step is not None:
                leads[state].add(step.state)
    for state in State:
        seen, open_ = {state}, [state]
        while open_:
            new = leads[open_.pop()] - seen
            seen |= new
            open_ += new
        assert any(each.terminal for each in seen), f"{state} leads nowhere"


@pytest.mark.slow
@pytest.mark.parametrize("state", [state for state in State if not state.terminal])
def test_no_combination_is_stuck(state: State):
    """What keeps a job where it is can end: by the world's progress, or by time passing."""
    for known, step in explored(state):
        if step is not None or known["deleted"]:
            continue
        assert any(
            next_step(state, JobFacts(**{**known, **progress})) is not None
            for progress in _progress(state, known)
        ), f"{state} is stuck with {known}"


def _progress(state: State, known: dict[str, Any]) -> list[dict[str, Any]]:
    """What may come without a change of the specification, but where only that is waited for."""
    if state is State.VALIDATION_FAILED:
        return [{"valid": True}]
    if state is State.SUSPENDED:
        return [{"suspend": False}]
    ready = {"cluster": ClusterFact.READY, "head": HeadFact.SAME}
    return [
        {**ready, "valid": True},
        {**ready, "valid": True, "id_given": True},
        {"leftovers": False},
        {"submitter": SubmitterFact.SUCCEEDED},
        {"result_grace_passed": True},
        {"outage": OutageLength.TOO_LONG},
        {"outage": OutageLength.TOO_LONG, "submitter_grace_passed": True},
        {"ray": RayFact.SUCCEEDED, "submitter": SubmitterFact.SUCCEEDED},
    ]


@pytest.mark.parametrize("reason", FailureReason)
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_retry_follows_while_attempts_are_left_and_the_reason_allows_it(
    reason: FailureReason, limit: int
):
    for failed in range(1, limit + 3):
        state = after_failure(reason, failed=failed, backoff_limit=limit)
        retried = reason not in NEVER_RETRIED and failed <= limit
        assert state is (State.RETRYING if retried else State.FAILED)


@pytest.mark.slow
def test_every_failure_in_the_table_is_decided_by_the_one_function():
    for state in State:
        for known, step in explored(state):
            if step is None or not step.failed:
                assert step is None or step.state not in {State.FAILED, State.RETRYING}
                continue
            assert step.reason is not None
            assert step.state is after_failure(
                step.reason,
                failed=known["failed"] + 1,
                backoff_limit=known["backoff_limit"],
                disrupted=step.disrupted,
            )


def test_only_what_is_wrong_with_an_attempt_fails_it():
    failing = {state for state, rows in TABLE.items() for _, then in rows if isinstance(then, Fail)}
    assert failing == {State.INITIALIZING, State.WAITING, State.RUNNING}


def test_a_result_waits_for_the_submitter_within_the_grace_period():
    for ray in (RayFact.SUCCEEDED, RayFact.FAILED, RayFact.STOPPED):
        assert running(ray=ray) is None
        hangs = running(ray=ray, result_grace_passed=True)
        assert hangs is not None
        assert hangs.reason is FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED
        assert running(ray=ray, submitter=SubmitterFact.NONE) is not None


def test_a_healthy_dashboard_that_does_not_know_the_id_gives_the_submitter_thirty_seconds():
    failed = {"ray": RayFact.NOT_FOUND, "submitter": SubmitterFact.FAILED}
    assert running(**failed) is None
    step = running(**failed, submitter_grace_passed=True)
    assert step == DueTransition(State.FAILED, FailureReason.SUBMISSION_FAILED, failed=True)
    ended = {"ray": RayFact.NOT_FOUND, "submitter": SubmitterFact.SUCCEEDED}
    assert running(**ended) is None
    step = running(**ended, submitter_grace_passed=True)
    assert step == DueTransition(State.FAILED, FailureReason.APP_FAILED, failed=True)


def test_a_dashboard_out_of_reach_counts_after_five_minutes_only():
    for submitter in SubmitterFact:
        no_answer = {
            "ray": RayFact.NO_ANSWER,
            "submitter": submitter,
            "submitter_grace_passed": True,
        }
        assert running(**no_answer) is None
        assert running(**no_answer, outage=OutageLength.TOO_LONG_FOR_LOST_HEAD) is None
        step = running(**no_answer, outage=OutageLength.TOO_LONG)
        ended = submitter in {SubmitterFact.SUCCEEDED, SubmitterFact.FAILED}
        assert step is not None
        assert step.reason is (
            FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED
            if ended
            else FailureReason.STATUS_CHECK_TIMEOUT_EXCEEDED
        )


def test_a_lost_head_is_the_end_of_the_attempt_unless_the_new_one_knows_the_job():
    lost = DueTransition(State.FAILED, FailureReason.HEAD_LOST, failed=True)
    assert running(head=HeadFact.REPLACED, ray=RayFact.NOT_FOUND) == lost
    assert running(head=HeadFact.REPLACED, ray=RayFact.ACTIVE) is None
    for ray in RayFact:
        if ray not in {RayFact.SUCCEEDED, RayFact.FAILED, RayFact.STOPPED}:
            assert running(head=HeadFact.REPLACED_WITHOUT_STATE, ray=ray) == lost
    for head in (HeadFact.GONE, HeadFact.REPLACED):
        assert running(head=head, ray=RayFact.NO_ANSWER) is None
        late = running(head=head, ray=RayFact.NO_ANSWER, outage=OutageLength.TOO_LONG_FOR_LOST_HEAD)
        assert late == lost
    for cluster in (ClusterFact.ABSENT, ClusterFact.TERMINATING):
        assert running(cluster=cluster) == lost


@pytest.mark.slow
def test_what_has_begun_goes_on_whatever_the_specification_has_become():
    """Nothing that a running job meets depends on the specification's being valid."""
    for known, step in explored(State.RUNNING):
        assert "valid" not in known, (known, step)
    for state in (State.INITIALIZING, State.WAITING, State.SUSPENDING, State.RETRYING):
        for known, step in explored(state):
            if known.get("valid") is False:
                assert step is None or step.failed, "only what is new waits for the correction"


@pytest.mark.parametrize("state", [State.NEW, State.SUSPENDED])
def test_nothing_begins_while_the_specification_is_invalid(state: State):
    step = next_step(state, JobFacts(valid=False))
    assert step == DueTransition(State.VALIDATION_FAILED, FailureReason.VALIDATION_FAILED)


@pytest.mark.parametrize("valid", [False, True])
def test_an_attempt_that_another_operator_left_at_an_invalid_edit_is_followed(valid: bool):
    ran = JobFacts(valid=valid, has_attempt=True, may_be_submitted=True)
    assert next_step(State.VALIDATION_FAILED, ran) == DueTransition(State.RUNNING)
    back = next_step(State.VALIDATION_FAILED, JobFacts(valid=valid, has_attempt=True))
    assert back == DueTransition(State.INITIALIZING)


def test_a_specification_that_is_corrected_begins():
    assert next_step(State.VALIDATION_FAILED, JobFacts()) == DueTransition(State.NEW)
    assert next_step(State.VALIDATION_FAILED, JobFacts(valid=False)) is None


def test_a_state_that_nobody_knows_is_left_like_a_failed_validation():
    assert State.of("Sleeping") is State.VALIDATION_FAILED
    assert all(State.of(state.value) is state for state in State)


def test_an_attempt_whose_head_a_disruption_took_is_retried_beyond_the_limit():
    lost = {"cluster": ClusterFact.ABSENT, "disrupted": True}
    assert running(**lost) == DueTransition(
        State.RETRYING, FailureReason.HEAD_LOST, failed=True, disrupted=True
    )
    failed = {"ray": RayFact.FAILED, "submitter": SubmitterFact.NONE, "disrupted": True}
    for head in (HeadFact.SAME, HeadFact.TERMINATING, HeadFact.GONE):
        step = running(**failed, head=head)
        assert step is not None
        assert step.state is State.RETRYING, "Ray may call the job failed while its head goes"


def test_a_job_that_fails_on_the_head_which_took_over_with_its_state_counts():
    failed = {"ray": RayFact.FAILED, "submitter": SubmitterFact.NONE, "disrupted": True}
    step = running(**failed, head=HeadFact.REPLACED)
    assert step == DueTransition(State.FAILED, FailureReason.APP_FAILED, failed=True)
    unknown = running(ray=RayFact.NOT_FOUND, head=HeadFact.REPLACED, disrupted=True)
    assert unknown is not None
    assert unknown.state is State.RETRYING


ENDED = {SubmitterFact.SUCCEEDED, SubmitterFact.FAILED}
RESULTS = {RayFact.SUCCEEDED, RayFact.FAILED, RayFact.STOPPED}
LOST = {HeadFact.GONE, HeadFact.TERMINATING, HeadFact.REPLACED}


def _grounds(known: dict[str, Any]) -> dict[FailureReason, bool]:
    """What must be known for an attempt that runs to fail for each reason."""
    ray, submitter = known["ray"], known.get("submitter")
    not_found, no_answer = ray is RayFact.NOT_FOUND, ray is RayFact.NO_ANSWER
    grace = bool(known.get("submitter_grace_passed"))
    outage = known.get("outage", OutageLength.SHORT)
    late = submitter in ENDED and grace
    settled = submitter is not SubmitterFact.ACTIVE or bool(known.get("suspend"))
    return {
        FailureReason.APP_FAILED: (ray is RayFact.FAILED and settled)
        or (not_found and bool(known.get("was_known")))
        or (late and submitter is SubmitterFact.SUCCEEDED and not_found),
        FailureReason.DEADLINE_EXCEEDED: bool(known.get("deadline_passed")),
        FailureReason.PRE_RUNNING_DEADLINE_EXCEEDED: bool(known.get("pre_running_deadline_passed"))
        and not known.get("was_known")
        and (
            (known.get("head") is HeadFact.UNRECORDED and bool(known.get("records_late")))
            or (
                (submitter is SubmitterFact.ABSENT or bool(known.get("without_pod")))
                and known.get("head") is HeadFact.SAME
            )
        ),
        FailureReason.SUBMISSION_FAILED: (bool(known.get("submission_refused")) and not_found)
        or (late and submitter is SubmitterFact.FAILED and not_found),
        FailureReason.HEAD_LOST: known.get("cluster")
        in {ClusterFact.ABSENT, ClusterFact.TERMINATING}
        or known.get("head") is HeadFact.REPLACED_WITHOUT_STATE
        or (known.get("head") is HeadFact.REPLACED and not_found)
        or (known.get("head") in LOST and no_answer and outage > OutageLength.SHORT),
        FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED: (
            ray is RayFact.FAILED and bool(known.get("result_grace_passed"))
        )
        or (late and no_answer and outage is OutageLength.TOO_LONG),
        FailureReason.STATUS_CHECK_TIMEOUT_EXCEEDED: no_answer and outage is OutageLength.TOO_LONG,
    }


@pytest.mark.slow
def test_an_attempt_fails_only_for_a_reason_that_there_is():
    told: set[FailureReason] = set()
    for known, step in explored(State.RUNNING):
        if step is not None and step.failed:
            assert step.reason is not None
            assert _grounds(known)[step.reason], (step, known)
            told.add(step.reason)
    assert told == set(_grounds({"ray": RayFact.NO_ANSWER}))


@pytest.mark.slow
def test_an_attempt_that_has_a_reason_to_fail_does_not_go_on():
    """But while its submitter prints the rest, or it is suspended first."""
    for known, step in explored(State.RUNNING):
        if step is not None or known["deleted"] or known["ray"] in RESULTS:
            continue
        assert not any(_grounds(known).values()), known


@pytest.mark.slow
def test_a_job_completes_only_by_the_word_of_ray():
    for known, step in explored(State.RUNNING):
        if step is None or step.state is not State.COMPLETE:
            continue
        assert known["ray"] in {RayFact.SUCCEEDED, RayFact.STOPPED}
        late = step.reason is FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED
        assert late == (known.get("submitter") is SubmitterFact.ACTIVE and not known.get("suspend"))
        assert not late or known["result_grace_passed"]


def test_a_waiting_job_runs_when_its_id_is_given_and_its_head_recorded():
    for id_given in (False, True):
        for head in HeadFact:
            facts = JobFacts(cluster=ClusterFact.READY, id_given=id_given, head=head)
            due = id_given and head is HeadFact.SAME
            assert next_step(State.WAITING, facts) == (
                DueTransition(State.RUNNING) if due else None
            )
    lost = JobFacts(cluster=ClusterFact.TERMINATING, interactive=True)
    assert next_step(State.WAITING, lost) == DueTransition(
        State.FAILED, FailureReason.HEAD_LOST, failed=True
    )
