"""The conditions of transitions, one function each; docs/rayjob.md shows their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.ray.job.state_machine.facts import (
    ClusterFact,
    HeadFact,
    OutageLength,
    RayFact,
    SubmitterFact,
)

if TYPE_CHECKING:
    from controller.ray.job.state_machine.facts import JobFacts

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
    """`preRunningDeadlineSeconds` have passed, and no pod of a submitter could be created."""
    absent = facts.submitter is SubmitterFact.ABSENT or facts.without_pod
    waiting = facts.head is HeadFact.SAME and absent
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
