"""The reasons why an attempt fails, and whether each may be retried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonInfo:
    """The properties of a reason.

    Attributes:
        name: in conditions, events and `status.attempts`; KubeRay's where it has one.
        retriable: whether a new attempt on a fresh cluster may succeed.
        description: what happened, as docs/rayjob.md prints it.
        kuberay: KubeRay's nearest reason if `name` is not one of its own.
    """

    name: str
    retriable: bool
    description: str
    kuberay: str = ""


class Reason(Enum):
    """All reasons for which an attempt or the whole job fails."""

    _value_: ReasonInfo

    VALIDATION_FAILED = ReasonInfo(
        name="ValidationFailed",
        retriable=False,
        description="the specification is not valid; the job continues once it is corrected",
    )
    DEADLINE_EXCEEDED = ReasonInfo(
        name="DeadlineExceeded",
        retriable=False,
        description="the attempt took longer than activeDeadlineSeconds",
    )
    PRE_RUNNING_DEADLINE_EXCEEDED = ReasonInfo(
        name="PreRunningDeadlineExceeded",
        retriable=True,
        description="the job did not start to run within preRunningDeadlineSeconds",
    )
    APP_FAILED = ReasonInfo(
        name="AppFailed",
        retriable=True,
        description="Ray reports that the job failed, or no longer knows a job that it knew",
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
        kuberay="AppFailed",
    )
    TRANSITION_GRACE_PERIOD_EXCEEDED = ReasonInfo(
        name="JobDeploymentStatusTransitionGracePeriodExceeded",
        retriable=True,
        description="either the submitter or the Ray job ended, and the other did not end in time",
    )
    STATUS_CHECK_TIMEOUT_EXCEEDED = ReasonInfo(
        name="JobStatusCheckTimeoutExceeded",
        retriable=False,
        description="the dashboard of the head did not answer for five minutes",
    )

    @property
    def title(self) -> str:
        """The reason in conditions, events and `status.attempts`."""
        return self.value.name

    @property
    def for_status(self) -> str:
        """The value of `status.reason`: one of KubeRay's, because programs switch over them."""
        return self.value.kuberay or self.value.name

    @property
    def retriable(self) -> bool:
        """Whether a new attempt on a fresh cluster may succeed."""
        return self.value.retriable
