"""On what grounds a RayJob moves: of every combination of facts, not only of chosen ones."""

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
from controller.ray.job.table import DueTransition, next_step
from tests.ray.job.state_machine.exploring import explored

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
