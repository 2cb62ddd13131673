"""A failed write as a reason and in words, for conditions and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.runtime.plan import verb_of

if TYPE_CHECKING:
    from controller.runtime.plan import Failure


_WEBHOOK: Final = "failed calling webhook "
"""Kubernetes' words for an admission webhook that does not answer."""


def failure_reason(failure: Failure) -> str:
    """The server's reason, or the one of the Ray kinds where that says nothing of the cause."""
    if _WEBHOOK in failure.message and failure.reason != "Paused":  # which quotes another answer
        return "AdmissionUnavailable"
    return "WriteUnconfirmed" if failure.overdue else failure.reason


def failure_event(failure: Failure) -> str:
    """The reason of an event: `FailedToCreateStatefulSet`."""
    return f"FailedTo{verb_of(failure.write).capitalize()}{failure.write.target.resource.kind}"


def what_failed(failure: Failure) -> str:
    """A sentence about a write that failed, with the server's words."""
    target = failure.write.target
    doubt = "; it is not known whether it was carried out" if failure.unknown else ""
    return (
        f"cannot {verb_of(failure.write)} {target.resource.kind} {target.name}: "
        f"{failure.message}{doubt}"
    )
