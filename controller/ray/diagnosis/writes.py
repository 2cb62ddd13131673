"""Diagnoses writes that the API server rejects, with a remedy for the user.

Only `reason` and `message` of the response distinguish quota, admission, missing permissions and
invalid objects; the patterns match Kubernetes' own messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controller.kube.resources import PODS
from controller.ray.api.event_nouns import KUBERAY_NOUNS, event_noun
from controller.ray.diagnosis import reasons
from controller.ray.diagnosis.pod import HEAD
from controller.ray.diagnosis.reasons import Cause
from controller.ray.head.identity import HEAD_SCOPE, worker_scope
from controller.runtime.plan import DELETED_AGAIN, Create, verb_of

if TYPE_CHECKING:
    from controller.ray.api.event_nouns import EventNouns
    from controller.ray.diagnosis.reasons import Reason
    from controller.runtime.plan import Failure, Target, Write

_NO_ANSWER: Final = frozenset({
    "NotSent",
    "Paused",
    "OutcomeUnknown",
    "WriteUnconfirmed",
    "UnexpectedResponse",
    "TooManyRequests",
    "ServerTimeout",
    "Timeout",
    "ServiceUnavailable",
    "InternalError",
    "ServerError",
})  # fmt: skip
"""Reasons of failures that do not depend on the request."""

_BY_REASON: Final = {
    "NamespaceTerminating": reasons.NAMESPACE_TERMINATING,
    "Invalid": reasons.OBJECT_INVALID,
    "Forbidden": reasons.ADMISSION_DENIED,
    DELETED_AGAIN: reasons.REPEATEDLY_DELETED,
}

_MESSAGE_PATTERNS: Final[tuple[tuple[re.Pattern[str], Reason], ...]] = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"exceeded quota: ", reasons.QUOTA_EXCEEDED),
        (r"failed quota: .*must specify ", reasons.QUOTA_NEEDS_RESOURCES),
        (r"failed calling webhook ", reasons.ADMISSION_UNAVAILABLE),
        (r"admission webhook .* denied the request", reasons.ADMISSION_DENIED),
        (
            r"ValidatingAdmissionPolicy '.*' with binding '.*' denied request",
            reasons.ADMISSION_DENIED,
        ),
        (r"violates PodSecurity ", reasons.POD_SECURITY_VIOLATED),
        (r"error looking up service account ", reasons.SERVICE_ACCOUNT_MISSING),
        (
            r"(minimum|maximum) \S+ usage per (Container|Pod) |\S+ max limit to request ratio per ",
            reasons.LIMIT_RANGE_VIOLATED,
        ),
        (r"is being terminated", reasons.NAMESPACE_TERMINATING),
        (r"User .* cannot \S+ resource ", reasons.FORBIDDEN),
    )
)

_TRIES_AGAIN: Final = "the operator tries again"
_REMEDIES: Final = {
    reasons.QUOTA_EXCEEDED: "ask for a larger quota or lower replicas",
    reasons.QUOTA_NEEDS_RESOURCES: "set them in the pod template",
    reasons.LIMIT_RANGE_VIOLATED: (
        "change the resources in the pod template, or ask for another LimitRange"
    ),
    reasons.POD_SECURITY_VIOLATED: "set the securityContext of the pod template accordingly",
    reasons.ADMISSION_DENIED: "change the template accordingly, or ask for another policy",
    reasons.ADMISSION_UNAVAILABLE: (
        "repair the service of the webhook, or delete the webhook's configuration"
    ),
    reasons.NAMESPACE_TERMINATING: "create it in another namespace",
    reasons.OBJECT_INVALID: "correct this field of the template",
    reasons.API_SERVER_UNAVAILABLE: _TRIES_AGAIN,
    reasons.WRITE_UNCONFIRMED: _TRIES_AGAIN,
    reasons.WRITE_REFUSED: _TRIES_AGAIN,
}
"""The next step of a user whose write is refused, by the reason; the message ends with it."""

_REQUEST: Final = re.compile(
    r'User "([^"]*)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"'
)
_SERVICE_ACCOUNT: Final = re.compile(r"error looking up service account ([^:\s]+)")


def failure_cause(failure: Failure, *, has_head: bool, nouns: EventNouns = KUBERAY_NOUNS) -> Cause:
    """Return the cause that a failed write shows.

    Args:
        failure: the write and the server's response.
        has_head: whether there is a head; if not, every child that pods depend on blocks it.
        nouns: nouns of the kind that planned the write, for the reason of the event.
    """
    target = failure.write.target
    component = component_of_target(target)
    reason = _reason(failure)
    words = f"{_what_failed(failure.write)}: {_stable(failure)}{_remedy(failure, reason)}"
    return Cause(
        reason,
        component,
        failure.message if reason is reasons.REPEATEDLY_DELETED else words,
        blocks_head=component == HEAD or not (has_head or target.resource is PODS),
        event=_event_reason(failure.write, nouns),
    )


def is_inconclusive(failure: Failure) -> bool:
    """Return whether the server did not decide on the write, so that the last known cause stays."""
    return failure.may_resolve or _reason(failure) is reasons.API_SERVER_UNAVAILABLE


def names_a_webhook(failure: Failure) -> bool:
    """Return whether the write failed because of an admission webhook that does not answer."""
    return _reason(failure) is reasons.ADMISSION_UNAVAILABLE


def failure_reason(write: Write) -> str:
    """Return KubeRay's reason of a failed pod write: `FailedCreateWorkerPod`."""
    return f"Failed{verb_of(write).capitalize()}{_noun(write.target, KUBERAY_NOUNS)}"


def failure_message(failure: Failure) -> str:
    """Describe the failed write with the server's message, equally for every pod of a group."""
    what = f"{component_of_target(failure.write.target)}: {_what_failed(failure.write)}"
    return f"{what}: {failure.reason}: {_stable(failure)}"


def component_of_target(target: Target) -> str:
    """Return the component that a write concerns: `head`, `group small`, `Service x`."""
    if target.scope == HEAD_SCOPE:
        return HEAD
    if target.scope.startswith(worker_scope("")):
        return f"group {target.scope.split('/')[1]}"
    return f"{target.resource.kind} {target.name}"


def _reason(failure: Failure) -> Reason:
    if failure.reason != "Paused":  # which quotes what the server said about another request
        for pattern, reason in _MESSAGE_PATTERNS:
            if pattern.search(failure.message):
                return reason
    if failure.overdue:
        return reasons.WRITE_UNCONFIRMED
    if failure.unknown or failure.reason in _NO_ANSWER:
        return reasons.API_SERVER_UNAVAILABLE
    return _BY_REASON.get(failure.reason, reasons.WRITE_REFUSED)


def _remedy(failure: Failure, reason: Reason) -> str:
    if reason is reasons.FORBIDDEN:
        return _grant(failure)
    if reason is reasons.SERVICE_ACCOUNT_MISSING:
        found = _SERVICE_ACCOUNT.search(failure.message)
        name = found[1] if found else "that is named"
        return f"; create the service account {name}, or correct serviceAccountName"
    remedy = _REMEDIES.get(reason, "")
    return f"; {remedy}" if remedy else ""


def _grant(failure: Failure) -> str:
    found = _REQUEST.search(failure.message)
    if found is None:
        return ""
    user, verb, resource, group = found.groups()
    qualified = f"{resource}.{group}" if group else resource
    return f"; allow {user} the verb {verb} on {qualified} by a Role and its binding"


def _stable(failure: Failure) -> str:
    """Return the server's message without a pod's name, which changes with every attempt."""
    target = failure.write.target
    if target.resource is not PODS or not isinstance(failure.write, Create):
        return failure.message
    return failure.message.replace(f' "{target.name}"', "").replace(target.name, "the pod")


def _event_reason(write: Write, nouns: EventNouns) -> str:
    """Return KubeRay's reason of the event: `FailedToCreateWorkerPod`."""
    return f"FailedTo{verb_of(write).capitalize()}{_noun(write.target, nouns)}"


def _what_failed(write: Write) -> str:
    verb = verb_of(write)
    if write.target.resource is not PODS:
        return f"cannot be {verb}d"
    return f"cannot {verb} {'a pod' if isinstance(write, Create) else f'pod {write.target.name}'}"


def _noun(target: Target, nouns: EventNouns) -> str:
    if target.resource is not PODS:
        return event_noun(target.resource, nouns)
    return "HeadPod" if target.scope == HEAD_SCOPE else "WorkerPod"
