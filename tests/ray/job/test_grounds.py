"""On what grounds a RayJob moves: of every combination of facts, not only of chosen ones."""

from __future__ import annotations

from typing import Any

from controller.ray.job.state_machine.facts import (
    ClusterFact,
    Facts,
    HeadFact,
    RayFact,
    Silence,
    SubmitterFact,
)
from controller.ray.job.state_machine.reasons import Reason
from controller.ray.job.state_machine.states import State
from controller.ray.job.state_machine.transitions import Step, next_step
from tests.ray.job.exploring import explore

ENDED = {SubmitterFact.SUCCEEDED, SubmitterFact.FAILED}
RESULTS = {RayFact.SUCCEEDED, RayFact.FAILED, RayFact.STOPPED}
LOST = {HeadFact.GONE, HeadFact.LEAVING, HeadFact.OTHER}


def _grounds(known: dict[str, Any]) -> dict[Reason, bool]:
    """What must be known for an attempt that runs to fail for each reason."""
    ray, submitter = known["ray"], known.get("submitter")
    unknown, silent = ray is RayFact.UNKNOWN_ID, ray is RayFact.SILENT
    grace = bool(known.get("submitter_grace_over"))
    silence = known.get("silence", Silence.SHORT)
    late = submitter in ENDED and grace
    settled = submitter is not SubmitterFact.ACTIVE or bool(known.get("suspend"))
    return {
        Reason.APP_FAILED: (ray is RayFact.FAILED and settled)
        or (unknown and bool(known.get("once_known"))),
        Reason.DEADLINE_EXCEEDED: bool(known.get("deadline_passed") and known.get("stopped")),
        Reason.PRE_RUNNING_DEADLINE_EXCEEDED: bool(known.get("pre_running_deadline_passed"))
        and submitter is SubmitterFact.ABSENT
        and known.get("head") is HeadFact.SAME
        and not known.get("once_known"),
        Reason.SUBMISSION_FAILED: (bool(known.get("refused")) and unknown)
        or (late and submitter is SubmitterFact.FAILED and unknown),
        Reason.HEAD_LOST: known.get("cluster") in {ClusterFact.ABSENT, ClusterFact.GOING}
        or known.get("head") is HeadFact.EMPTY
        or (known.get("head") is HeadFact.OTHER and unknown)
        or (known.get("head") in LOST and silent and silence > Silence.SHORT),
        Reason.TRANSITION_GRACE_PERIOD_EXCEEDED: (
            ray is RayFact.FAILED and bool(known.get("result_grace_over"))
        )
        or (late and submitter is SubmitterFact.SUCCEEDED and unknown)
        or (late and silent and silence is Silence.TOO_LONG),
        Reason.STATUS_CHECK_TIMEOUT_EXCEEDED: silent and silence is Silence.TOO_LONG,
    }


def test_an_attempt_fails_only_for_a_reason_that_there_is():
    told: set[Reason] = set()
    for known, step in explore(lambda facts: next_step(State.RUNNING, facts)):
        if step is not None and step.failed:
            assert step.reason is not None
            assert _grounds(known)[step.reason], (step, known)
            told.add(step.reason)
    assert told == set(_grounds({"ray": RayFact.SILENT}))


def test_an_attempt_that_has_a_reason_to_fail_does_not_go_on():
    """But while it is stopped, or its submitter prints the rest, or it is suspended first."""
    for known, step in explore(lambda facts: next_step(State.RUNNING, facts)):
        if step is not None or known["deleted"] or known["ray"] in RESULTS:
            continue
        stopping = known.get("deadline_passed") and not known.get("stopped")
        assert stopping or not any(_grounds(known).values()), known


def test_a_job_completes_only_by_the_word_of_ray():
    for known, step in explore(lambda facts: next_step(State.RUNNING, facts)):
        if step is None or step.state is not State.COMPLETE:
            continue
        assert known["ray"] in {RayFact.SUCCEEDED, RayFact.STOPPED}
        late = step.reason is Reason.TRANSITION_GRACE_PERIOD_EXCEEDED
        assert late == (known.get("submitter") is SubmitterFact.ACTIVE and not known.get("suspend"))
        assert not late or known["result_grace_over"]


def test_a_waiting_job_runs_when_its_id_is_given_and_its_head_recorded():
    for id_given in (False, True):
        for head in HeadFact:
            facts = Facts(cluster=ClusterFact.READY, id_given=id_given, head=head)
            due = id_given and head is HeadFact.SAME
            assert next_step(State.WAITING, facts) == (Step(State.RUNNING) if due else None)
    lost = Facts(cluster=ClusterFact.GOING, interactive=True)
    assert next_step(State.WAITING, lost) == Step(State.FAILED, Reason.HEAD_LOST, failed=True)
