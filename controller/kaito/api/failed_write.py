"""The reason and the message of a failed write, for conditions and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.runtime.plan import verb_of

if TYPE_CHECKING:
    from controller.runtime.plan import Failure


_WEBHOOK: Final = "failed calling webhook "
"""The words of Kubernetes about an admission webhook that does not answer."""


def failure_reason(failure: Failure) -> str:
    """Return the server's reason, or that of the Ray kinds for a webhook that does not answer."""
    if _WEBHOOK in failure.message and failure.reason != "Paused":  # which quotes another answer
        return "AdmissionUnavailable"
    return failure.reason


def failure_event(failure: Failure) -> str:
    """Return the reason of an event: `FailedToCreateStatefulSet`."""
    return f"FailedTo{verb_of(failure.write).capitalize()}{failure.write.target.resource.kind}"


def what_failed(failure: Failure) -> str:
    """Return a sentence about a failed write, with the server's words."""
    target = failure.write.target
    doubt = "; it is not known whether it was carried out" if failure.unknown else ""
    return (
        f"cannot {verb_of(failure.write)} {target.resource.kind} {target.name}: "
        f"{failure.message}{doubt}"
    )
