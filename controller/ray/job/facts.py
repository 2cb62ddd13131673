"""The states of a RayJob, the facts of which its table speaks, its reasons and deadlines."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum, IntEnum
from typing import Final

from msgspec import Struct

from controller.apimachinery.conditions import counted_from

# The ten states of a RayJob: KubeRay's `status.jobDeploymentStatus`.


class State(Enum):
    """State of a RayJob; the values are KubeRay's."""

    NEW = ""
    INITIALIZING = "Initializing"
    WAITING = "Waiting"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"
    VALIDATION_FAILED = "ValidationFailed"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RETRYING = "Retrying"

    @property
    def terminal(self) -> bool:
        """True if no other state follows."""
        return self in _TERMINAL

    @property
    def has_attempt(self) -> bool:
        """True if an attempt is in progress and its names are stored."""
        return self in _WITH_ATTEMPT

    @property
    def title(self) -> str:
        """The value, or `New` if it is empty."""
        return self.value or "New"

    @classmethod
    def of(cls, text: str) -> State:
        """Return the state that a status names; `VALIDATION_FAILED` for an unknown one."""
        return _BY_VALUE.get(text, cls.VALIDATION_FAILED)


_TERMINAL: Final = frozenset({State.COMPLETE, State.FAILED})
_WITH_ATTEMPT: Final = frozenset({State.INITIALIZING, State.WAITING, State.RUNNING})
_BY_VALUE: Final = {state.value: state for state in State}


# The time of one reconcile, and the earliest future moment on which its decisions depend.


class Deadlines:
    """Answers whether deadlines have passed, and remembers the earliest one that has not."""

    def __init__(
        self,
        now: datetime,
        clock_jumped_at: datetime | None = None,
        clock_steady_since: datetime | None = None,
    ) -> None:
        self.now = now
        self._clock_jumped_at = clock_jumped_at
        self._clock_steady_since = clock_steady_since
        self._next: datetime | None = None

    def reached(self, moment: datetime | None) -> bool:
        """Return whether `moment` has come; False for None. A future moment is remembered."""
        if moment is None:
            return False
        if moment <= self.now:
            return True
        self._next = moment if self._next is None else min(self._next, moment)
        return False

    def passed(self, start: datetime | None, span: timedelta) -> bool:
        """Return whether `span` has passed since `start`; False if there is no start."""
        return start is not None and self.reached(self.counted_from(start) + span)

    def counted_from(self, start: datetime) -> datetime:
        """Return `start`, unless only a clock that was ahead can have written it."""
        return counted_from(start, self._clock_steady_since, self.now)

    def waited(self, start: datetime | None, span: timedelta) -> bool:
        """Return whether `span` was spent waiting since `start`; False if there is no start.

        This is for the operator's own patience, which a jump of the clock must not end. Users' time
        limits end by the time of day (`passed`).
        """
        return start is not None and self.passed(self.waiting_since(start), span)

    def waiting_since(self, start: datetime) -> datetime:
        """Return `start`, or the last jump of the clock: the time before that is uncertain."""
        jump = self._clock_jumped_at
        if jump is None or jump <= start <= self.now:
            return min(self.counted_from(start), self.now)
        return jump

    @property
    def untracked(self) -> Deadlines:
        """The same time; questions to it do not affect `seconds_to_next`."""
        return Deadlines(self.now, self._clock_jumped_at, self._clock_steady_since)

    @property
    def seconds_to_next(self) -> float | None:
        """Seconds until the earliest future moment that was asked about; None if there is none."""
        return None if self._next is None else (self._next - self.now).total_seconds()


# The facts that transitions depend on: enumerations, booleans and two counters.
#
# Names, times and texts are reduced to facts before any decision, so that tests can try every
# combination.


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


class JobFacts(Struct, frozen=True, kw_only=True):
    """The facts about a RayJob at one moment.

    Attributes:
        suspend: `spec.suspend`, unless the problem of the specification is about it.
        interactive: whether a person submits the job and then sets `spec.jobId`.
        records_late: whether the head is recorded only when Ray has answered, because the operator
            itself submits.
        id_given: whether `spec.jobId` is set.
        has_attempt: whether the names of an attempt are stored.
        may_be_submitted: whether the job of the attempt may have been submitted.
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
        failed: number of attempts that have failed and count.
        disrupted: whether a disruption has taken the recorded head, and another one may.
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
    disrupted: bool = False
    backoff_limit: int = 0


# The reasons why an attempt fails, and whether each may be retried.


class FailureReason(Enum):
    """All reasons for which an attempt or the whole job fails.

    Attributes:
        title: the reason in conditions, events and `status.attempts`; KubeRay's where it has one.
        retriable: whether a new attempt on a fresh cluster may succeed.
        description: the event, in the words of docs/rayjob.md.
        for_status: the value of `status.reason`: one of KubeRay's, because programs switch over
            them.
    """

    def __init__(self, title: str, retriable: bool, description: str, kuberay: str = "") -> None:
        self.title = title
        self.retriable = retriable
        self.description = description
        self.for_status = kuberay or title

    VALIDATION_FAILED = (
        "ValidationFailed",
        False,
        "the specification is not valid; the job continues once it is corrected",
    )
    DEADLINE_EXCEEDED = (
        "DeadlineExceeded",
        False,
        "the attempt took longer than activeDeadlineSeconds",
    )
    PRE_RUNNING_DEADLINE_EXCEEDED = (
        "PreRunningDeadlineExceeded",
        True,
        "the job did not start to run within preRunningDeadlineSeconds",
    )
    APP_FAILED = (
        "AppFailed",
        True,
        (
            "Ray reports that the job failed, or no longer knows a job that it knew, or the "
            "submitter succeeded and Ray does not know the job"
        ),
    )
    SUBMISSION_FAILED = (
        "SubmissionFailed",
        True,
        "Ray refused the job, or the submitter failed and Ray does not know the job",
    )
    HEAD_LOST = (
        "HeadLost",
        True,
        "the head on which the job ran was lost, replaced or restarted",
        "AppFailed",
    )
    TRANSITION_GRACE_PERIOD_EXCEEDED = (
        "JobDeploymentStatusTransitionGracePeriodExceeded",
        True,
        "either the submitter or the Ray job ended, and the other did not end in time",
    )
    STATUS_CHECK_TIMEOUT_EXCEEDED = (
        "JobStatusCheckTimeoutExceeded",
        False,
        "the dashboard of the head did not answer for five minutes",
    )
