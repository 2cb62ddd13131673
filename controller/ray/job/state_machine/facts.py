"""All that the table of transitions may look at: enumerations, yes and no, and two counters.

Names, times and texts are boiled down to these before anything is decided, so that every
combination can be tried.
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


class HeadFact(Enum):
    """The head pod, compared with the incarnation that the attempt was recorded to run on."""

    GONE = "gone"  # no live head, or its Ray container has ended
    UNRECORDED = "unrecorded"  # there is one, and nothing to compare it with
    SAME = "same"
    TERMINATING = "leaving"  # the same, but it is being deleted, or its node is lost
    REPLACED = "other"  # another pod, or the same after a restart, whose Ray may know the job
    REPLACED_WITHOUT_STATE = "empty"  # the same, but its Ray began with nothing


class SubmitterFact(Enum):
    """The submitter: a Job, or a container in the head pod. Its exit is never the job's result."""

    NONE = "none"  # this mode has none
    ABSENT = "absent"
    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class RayFact(Enum):
    """What Ray says about the submission id."""

    NO_ANSWER = "silent"  # nothing definite now
    NOT_FOUND = "unknown id"  # a healthy dashboard, asked for long enough, does not know it
    ACTIVE = "active"  # pending or running
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class OutageLength(IntEnum):
    """How long Ray has not answered."""

    SHORT = 0
    TOO_LONG_FOR_LOST_HEAD = 1
    TOO_LONG = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about a RayJob at one moment.

    Attributes:
        deleted: the RayJob is being deleted.
        valid: the specification is.
        suspend: `spec.suspend`.
        interactive: whether a person submits the job and then sets `spec.jobId`.
        id_given: whether `spec.jobId` is set.
        has_attempt: whether the names of an attempt are stored.
        may_be_submitted: whether the job of the attempt may have been submitted.
        cluster: the RayCluster.
        head: its head pod.
        submitter: the submitter.
        ray: what Ray says.
        outage: how long it has said nothing.
        submission_refused: whether Ray refused the submission, or did not take it in time.
        was_known: whether Ray had known the submission id before.
        deadline_passed: `activeDeadlineSeconds`.
        pre_running_deadline_passed: `preRunningDeadlineSeconds`.
        submitter_grace_passed: the submitter ended more than 30 s ago.
        result_grace_passed: the Ray job ended longer ago than the transition grace period.
        stopped: nothing is left to be stopped in Ray, or it was tried for long enough.
        leftovers: whether the cluster or the submitter of the attempt still exist, or may.
        failed: attempts that have failed before.
        backoff_limit: `spec.backoffLimit`.
    """

    deleted: bool = False
    valid: bool = True
    suspend: bool = False
    interactive: bool = False
    id_given: bool = False
    has_attempt: bool = False
    may_be_submitted: bool = False
    cluster: ClusterFact = ClusterFact.ABSENT
    head: HeadFact = HeadFact.GONE
    submitter: SubmitterFact = SubmitterFact.NONE
    ray: RayFact = RayFact.NO_ANSWER
    outage: OutageLength = OutageLength.SHORT
    submission_refused: bool = False
    was_known: bool = False
    deadline_passed: bool = False
    pre_running_deadline_passed: bool = False
    submitter_grace_passed: bool = False
    result_grace_passed: bool = False
    stopped: bool = True
    leftovers: bool = False
    failed: int = 0
    backoff_limit: int = 0
