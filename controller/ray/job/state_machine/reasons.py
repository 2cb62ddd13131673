"""The reasons why an attempt fails, and whether each may be retried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonInfo:
    """The properties of a reason.

    Attributes:
        name: name in conditions, events and `status.attempts`; KubeRay's where it has one.
        retriable: whether a new attempt on a fresh cluster may succeed.
        description: the event, in the words of docs/rayjob.md.
        kuberay: KubeRay's nearest reason if `name` is not one of its own.
    """

    name: str
    retriable: bool
    description: str
    kuberay: str = ""


def _retriable(name: str, description: str, kuberay: str = "") -> ReasonInfo:
    return ReasonInfo(name=name, retriable=True, description=description, kuberay=kuberay)


def _final(name: str, description: str) -> ReasonInfo:
    return ReasonInfo(name=name, retriable=False, description=description)


class FailureReason(Enum):
    """All reasons for which an attempt or the whole job fails."""

    _value_: ReasonInfo

    VALIDATION_FAILED = _final(
        "ValidationFailed", "the specification is not valid; the job continues once it is corrected"
    )
    DEADLINE_EXCEEDED = _final(
        "DeadlineExceeded", "the attempt took longer than activeDeadlineSeconds"
    )
    PRE_RUNNING_DEADLINE_EXCEEDED = _retriable(
        "PreRunningDeadlineExceeded",
        "the job did not start to run within preRunningDeadlineSeconds",
    )
    APP_FAILED = _retriable(
        "AppFailed",
        "Ray reports that the job failed, or no longer knows a job that it knew, or the submitter "
        "succeeded and Ray does not know the job",
    )
    SUBMISSION_FAILED = _retriable(
        "SubmissionFailed",
        "Ray refused the job, or the submitter failed and Ray does not know the job",
    )
    HEAD_LOST = _retriable(
        "HeadLost",
        "the head on which the job ran was lost, replaced or restarted",
        kuberay="AppFailed",
    )
    TRANSITION_GRACE_PERIOD_EXCEEDED = _retriable(
        "JobDeploymentStatusTransitionGracePeriodExceeded",
        "either the submitter or the Ray job ended, and the other did not end in time",
    )
    STATUS_CHECK_TIMEOUT_EXCEEDED = _final(
        "JobStatusCheckTimeoutExceeded", "the dashboard of the head did not answer for five minutes"
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
        """True if a new attempt on a fresh cluster may succeed."""
        return self.value.retriable
