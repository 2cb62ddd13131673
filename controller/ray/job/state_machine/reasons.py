"""Why an attempt fails, and whether another one may follow: one row for each reason.

A reason cannot be without its row, because the row is the member's value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonInfo:
    """What is to know of a reason.

    Attributes:
        name: what `status.reason` says: KubeRay's word where there is one.
        retriable: whether a fresh cluster may help.
        description: what happened, in the words of docs/rayjob.md.
    """

    name: str
    retriable: bool
    description: str


class Reason(Enum):
    """All reasons for which an attempt, or the whole job, is given up."""

    _value_: ReasonInfo

    VALIDATION_FAILED = ReasonInfo(
        name="ValidationFailed",
        retriable=False,
        description="the specification is not valid; correct it and the job goes on",
    )
    DEADLINE_EXCEEDED = ReasonInfo(
        name="DeadlineExceeded",
        retriable=False,
        description="the attempt took longer than activeDeadlineSeconds",
    )
    PRE_RUNNING_DEADLINE_EXCEEDED = ReasonInfo(
        name="PreRunningDeadlineExceeded",
        retriable=True,
        description="the job did not get to run within preRunningDeadlineSeconds",
    )
    APP_FAILED = ReasonInfo(
        name="AppFailed",
        retriable=True,
        description="Ray says that the job failed, or no longer knows a job that it knew",
    )
    SUBMISSION_FAILED = ReasonInfo(
        name="SubmissionFailed",
        retriable=True,
        description="Ray refused the job, or the submitter ended and Ray does not know the job",
    )
    HEAD_LOST = ReasonInfo(
        name="HeadLost",
        retriable=True,
        description="the head on which the job ran was lost, replaced or restarted",
    )
    TRANSITION_GRACE_PERIOD_EXCEEDED = ReasonInfo(
        name="JobDeploymentStatusTransitionGracePeriodExceeded",
        retriable=True,
        description="the submitter or the Ray job ended and the other did not follow in time",
    )
    STATUS_CHECK_TIMEOUT_EXCEEDED = ReasonInfo(
        name="JobStatusCheckTimeoutExceeded",
        retriable=False,
        description="the dashboard of the head did not answer for five minutes",
    )

    @property
    def title(self) -> str:
        """What `status.reason` says."""
        return self.value.name

    @property
    def retriable(self) -> bool:
        """Whether a fresh cluster may help."""
        return self.value.retriable
