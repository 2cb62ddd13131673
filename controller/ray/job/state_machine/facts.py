"""The facts that transitions depend on: enumerations, booleans and two counters.

Names, times and texts are reduced to facts before any decision, so that tests can try every
combination.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum


class ClusterFact(Enum):
    """The RayCluster of the attempt."""

    ABSENT = "absent"
    TERMINATING = "going"  # being deleted
    STARTING = "starting"
    READY = "ready"
    HEADLESS = "headless"  # it has lost its head, and makes no other


class HeadFact(Enum):
    """The head pod compared with the recorded head of the attempt."""

    GONE = "gone"  # there is no head, or its Ray container has ended
    AWAITED = "awaited"  # there is none that stays, and no earlier one can have got the job
    UNRECORDED = "unrecorded"  # there is a head, and none was recorded
    SAME = "same"
    TERMINATING = "leaving"  # the recorded one, being deleted or on a lost node
    REPLACED = "other"  # another pod or a restart; its Ray may know the job
    REPLACED_WITHOUT_STATE = "empty"  # another pod or a restart; its Ray has lost all jobs


class SubmitterFact(Enum):
    """The submitter: a Job or a container in the head pod. Its exit is never the job's result."""

    NONE = "none"  # the submission mode has none
    ABSENT = "absent"
    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class RayFact(Enum):
    """Ray's report about the submission id."""

    NO_ANSWER = "silent"  # no definite answer now
    NOT_FOUND = "unknown id"  # a healthy dashboard has not known it for long enough
    ACTIVE = "active"  # pending or running
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class OutageLength(IntEnum):
    """The time for which the dashboard has not answered."""

    SHORT = 0
    TOO_LONG_FOR_LOST_HEAD = 1
    TOO_LONG = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """The facts about a RayJob at one moment.

    Attributes:
        deleted: whether the RayJob is being deleted.
        valid: whether the specification is valid.
        suspend: `spec.suspend`.
        interactive: whether a person submits the job and then sets `spec.jobId`.
        records_late: whether the head is recorded only when Ray has answered, because the operator
            itself submits.
        id_given: whether `spec.jobId` is set.
        has_attempt: whether the names of an attempt are stored.
        may_be_submitted: whether the job of the attempt may have been submitted.
        cluster: the RayCluster.
        head: its head pod.
        submitter: the submitter.
        without_pod: whether the Job that submits has had no pod so far.
        ray: what Ray reports.
        outage: the time for which the dashboard has not answered.
        submission_refused: whether Ray refused the submission, or did not take it in time.
        was_known: whether Ray has known the submission id before.
        deadline_passed: whether `activeDeadlineSeconds` have passed.
        pre_running_deadline_passed: whether `preRunningDeadlineSeconds` have passed.
        submitter_grace_passed: whether the submitter ended more than 30 s ago.
        result_grace_passed: whether the transition grace period has passed since the Ray job ended.
        leftovers: whether the attempt's cluster or submitter exists or may exist, or its job may
            run on a cluster that stays.
        failed: number of attempts that have failed.
        backoff_limit: `spec.backoffLimit`.
    """

    deleted: bool = False
    valid: bool = True
    suspend: bool = False
    interactive: bool = False
    records_late: bool = False
    id_given: bool = False
    has_attempt: bool = False
    may_be_submitted: bool = False
    cluster: ClusterFact = ClusterFact.ABSENT
    head: HeadFact = HeadFact.GONE
    submitter: SubmitterFact = SubmitterFact.NONE
    without_pod: bool = False
    ray: RayFact = RayFact.NO_ANSWER
    outage: OutageLength = OutageLength.SHORT
    submission_refused: bool = False
    was_known: bool = False
    deadline_passed: bool = False
    pre_running_deadline_passed: bool = False
    submitter_grace_passed: bool = False
    result_grace_passed: bool = False
    leftovers: bool = False
    failed: int = 0
    backoff_limit: int = 0
