"""Reasons for which an object is not as it should be, with what they mean and the next step.

One catalogue, from which conditions, events, the manual and `manta plan` take their words. Here are
those of writes that the API server refuses, which all kinds share; a kind adds its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import mapping
from controller.kube.objects import ObjectMeta
from controller.kube.resources import PODS, Resource
from controller.runtime.kind import CreateError, FailedCreate
from controller.runtime.plan import DELETED_AGAIN, Create, FailedCreates, Failure, Target, verb_of


class Severity(IntEnum):
    """The severity of a cause; smaller values are more severe."""

    ACTION_REQUIRED = 0
    TRANSIENT = 1
    IN_PROGRESS = 2


class Reason(Struct, frozen=True):
    """A kind of cause.

    Attributes:
        name: reason of the condition `Ready`, in CamelCase.
        severity: whether waiting helps.
        meaning: one sentence for the manual.
        remedy: the user's next step, one sentence for the manual.
        next_step: the same at the end of a message; empty if the message itself or the kind has it.
    """

    name: str
    severity: Severity
    meaning: str
    remedy: str
    next_step: str = ""


_HELP, _PASS, _TIME = Severity.ACTION_REQUIRED, Severity.TRANSIENT, Severity.IN_PROGRESS
_TRIES_AGAIN: Final = "the operator tries again"

QUOTA_EXCEEDED: Final = Reason(
    "QuotaExceeded",
    _PASS,
    "The namespace's ResourceQuota has no room for another object.",
    "Ask for a larger quota, lower `replicas`, or stop what else uses the quota.",
    "ask for a larger quota",
)
QUOTA_NEEDS_RESOURCES: Final = Reason(
    "QuotaNeedsResources",
    _HELP,
    "The namespace's ResourceQuota limits a resource that a container does not request.",
    "In the pod template, set the requests and limits that the message names.",
    "set them in the pod template",
)
LIMIT_RANGE_VIOLATED: Final = Reason(
    "LimitRangeViolated",
    _HELP,
    "The resources of a container violate the namespace's LimitRange.",
    "Change the resources in the pod template, or ask for another LimitRange.",
    "change the resources in the pod template, or ask for another LimitRange",
)
POD_SECURITY_VIOLATED: Final = Reason(
    "PodSecurityViolated",
    _HELP,
    "The namespace's Pod Security level forbids what the pod template requests.",
    "In the pod template, set the securityContext that the message requires.",
    "set the securityContext of the pod template accordingly",
)
SERVICE_ACCOUNT_MISSING: Final = Reason(
    "ServiceAccountNotFound",
    _HELP,
    "The service account of a pod does not exist.",
    "Create it, or correct serviceAccountName in the pod template.",
)
ADMISSION_DENIED: Final = Reason(
    "AdmissionDenied",
    _HELP,
    "An admission webhook, policy or plug-in rejects the object.",
    "Change the template to satisfy the policy that the message names, or ask for another policy.",
    "change the template accordingly, or ask for another policy",
)
ADMISSION_UNAVAILABLE: Final = Reason(
    "AdmissionUnavailable",
    _PASS,
    "An admission webhook does not answer, so nothing can be created.",
    "Repair the webhook's service, or delete its configuration.",
    "repair the service of the webhook, or delete the webhook's configuration",
)
FORBIDDEN: Final = Reason(
    "Forbidden",
    _HELP,
    "The operator lacks the permission for a request.",
    "Grant it the verb and resource that the message names.",
)
OBJECT_INVALID: Final = Reason(
    "ObjectInvalid",
    _HELP,
    "The API server rejects an object that follows from the specification.",
    "In the template, correct the field that the message names.",
    "correct this field of the template",
)
OBJECT_TOO_LARGE: Final = Reason(
    "ObjectTooLarge",
    _HELP,
    "An object that follows from the specification is larger than the API server accepts.",
    "Make the template smaller: put large values into ConfigMaps or into files of the image.",
    "make the template smaller: put large values into ConfigMaps or into files of the image",
)
NAMESPACE_TERMINATING: Final = Reason(
    "NamespaceTerminating",
    _HELP,
    "The namespace is being deleted; nothing can be created in it.",
    "Nothing, or create the cluster in another namespace.",
    "create it in another namespace",
)
REPEATEDLY_DELETED: Final = Reason(
    "RepeatedlyDeleted",
    _HELP,
    "Another writer deletes the object as often as it is created, so that it is created seldom.",
    "Find the other writer in the audit log of the API server, and configure or stop it.",
)
WRITE_REFUSED: Final = Reason(
    "WriteRefused",
    _PASS,
    "The API server refused a request for another reason.",
    "Follow the message; the operator repeats the request.",
    _TRIES_AGAIN,
)
WRITE_UNCONFIRMED: Final = Reason(
    "WriteUnconfirmed",
    _PASS,
    "The API server has not said for several seconds whether it carried out a request: it failed, "
    "or its answer was lost. Until it does, the operator creates and deletes nothing that depends "
    "on it.",
    "Check the API server, and what it asks before it stores an object; the operator repeats the "
    "request.",
    _TRIES_AGAIN,
)
API_SERVER_UNAVAILABLE: Final = Reason(
    "ApiServerUnavailable",
    _TIME,
    "The API server did not accept a request because it is overloaded, failing or unreachable.",
    "If this lasts, check the API server; the operator repeats the request.",
    _TRIES_AGAIN,
)

REFUSALS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Reason))
"""All reasons for which the API server refuses a write, or does not say what became of it."""


# Reasons for which the API server refuses a write, and the remedies of a user.
#
# Only `reason` and `message` of the response distinguish quota, admission, missing permissions and
# invalid objects; the patterns match Kubernetes' own messages.


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
    "NamespaceTerminating": NAMESPACE_TERMINATING,
    "Invalid": OBJECT_INVALID,
    "RequestEntityTooLarge": OBJECT_TOO_LARGE,
    "Forbidden": ADMISSION_DENIED,
    DELETED_AGAIN: REPEATEDLY_DELETED,
}

_BY_MESSAGE: Final[tuple[tuple[re.Pattern[str], Reason], ...]] = tuple(
    (re.compile(pattern), refusal)
    for pattern, refusal in (
        (r"exceeded quota: ", QUOTA_EXCEEDED),
        (r"failed quota: .*must specify ", QUOTA_NEEDS_RESOURCES),
        (r"failed calling webhook ", ADMISSION_UNAVAILABLE),
        (r"admission webhook .* denied the request", ADMISSION_DENIED),
        (
            r"ValidatingAdmissionPolicy '.*' with binding '.*' denied request",
            ADMISSION_DENIED,
        ),
        (r"violates PodSecurity ", POD_SECURITY_VIOLATED),
        (r"error looking up service account ", SERVICE_ACCOUNT_MISSING),
        (
            r"(minimum|maximum) \S+ usage per (Container|Pod) |\S+ max limit to request ratio per ",
            LIMIT_RANGE_VIOLATED,
        ),
        (r"is being terminated", NAMESPACE_TERMINATING),
        (r"cannot set blockOwnerDeletion ", FORBIDDEN),
        (r"User .* cannot \S+ resource ", FORBIDDEN),
    )
)


_REQUEST: Final = re.compile(
    r'User "([^"]*)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"'
)
_SERVICE_ACCOUNT: Final = re.compile(r"error looking up service account ([^:\s]+)")
_NO_WORDS: Final[Mapping[Reason, str]] = MappingProxyType({})


def refused_create(
    target: Target, error: CreateError, owner: Mapping[str, Any] | None = None
) -> Failure:
    """Return the failure of an earlier create, to be told in the same words as a new one.

    Args:
        target: the object.
        error: the server's response.
        owner: reference to the owner of the object; None if it does not matter.
    """
    body = {} if owner is None else {"metadata": {"ownerReferences": [owner]}}
    return Failure(Create(target, body), error.reason, error.message)


def refusal_of(failure: Failure) -> Reason:
    """Return why a write failed."""
    if failure.reason != "Paused":  # which quotes what the server said about another request
        for pattern, refusal in _BY_MESSAGE:
            if pattern.search(failure.message):
                return refusal
    if failure.overdue:
        return WRITE_UNCONFIRMED
    if failure.unknown or failure.reason in _NO_ANSWER:
        return API_SERVER_UNAVAILABLE
    return _BY_REASON.get(failure.reason, WRITE_REFUSED)


def remedy_of(failure: Failure, words: Mapping[Reason, str] = _NO_WORDS) -> str:
    """Return the user's next step, empty if the server's message has it.

    Args:
        failure: the write and the server's response.
        words: what the kind says otherwise, because it knows the field.
    """
    refusal = refusal_of(failure)
    if refusal is FORBIDDEN:
        return _grant(failure)
    if refusal is SERVICE_ACCOUNT_MISSING:
        found = _SERVICE_ACCOUNT.search(failure.message)
        name = found[1] if found else "that is named"
        return f"create the service account {name}, or correct serviceAccountName"
    if refusal is ADMISSION_DENIED and verb_of(failure.write) == "delete":
        return "ask for another policy, or for one that exempts the operator"
    return words.get(refusal) or refusal.next_step


def remedies_in(field: str, where: str = "") -> dict[Reason, str]:
    """Return what a user changes in the field that describes pods which were refused.

    Args:
        field: the field.
        where: the part, such as `of container a in spec.template`; the field itself if empty.
    """
    place = where or f"in {field}"
    resources = f"change the resources {place}"
    return {
        LIMIT_RANGE_VIOLATED: f"{resources}, or ask for another LimitRange",
        QUOTA_EXCEEDED: f"ask for a larger quota, or {resources}",
        QUOTA_NEEDS_RESOURCES: f"set the resources {place}",
        POD_SECURITY_VIOLATED: f"set the securityContext {place}",
        OBJECT_INVALID: f"correct this field in {field}",
        ADMISSION_DENIED: f"change the pod accordingly in {field}, or ask for another policy",
    }


def with_remedy(words: str, remedy: str) -> str:
    """Return a sentence about a refusal with the next step at its end."""
    return f"{words}; {remedy}" if remedy else words


def _grant(failure: Failure) -> str:
    if "blockOwnerDeletion" in failure.message:
        return "allow the operator the verb update on the finalizers of its kinds by a Role"
    found = _REQUEST.search(failure.message)
    if found is None:
        return ""
    user, verb, resource, group = found.groups()
    qualified = f"{resource}.{group}" if group else resource
    role = "Role" if failure.write.target.resource.namespaced else "ClusterRole"
    return f"allow {user} the verb {verb} on {qualified} by a {role} and its binding"


# Pods that an object of ours could not create, such as those of a Job that a LimitRange refuses.
#
# Jobs and StatefulSets tell of them in events only. Events are not watched: those of one object are
# read when it has had no pod for some seconds, and again from time to time.

_PATIENCE: Final = timedelta(seconds=5)
"""The time that an object may take to create its first pod."""

_INTERVAL: Final = timedelta(seconds=30)
"""The time between two looks at the events of one object."""

PODS_MISSING: Final = "PodsMissing"
"""The reason for which an object is said to lack a pod if its events cannot be read."""

_POD_REMEDIES: Final = {WRITE_REFUSED: "Kubernetes tries again"}

_FAILED, _CREATED = "FailedCreate", "SuccessfulCreate"
_REASONS: Final = ((" is invalid: ", "Invalid"), (" is forbidden: ", "Forbidden"))
_WHO_FAILED: Final = re.compile(
    r"^(?:Error creating: |create Pod \S+ in StatefulSet \S+ failed error: )"
)
_NAMED_POD: Final = re.compile(r'\bpods? "[^"]*"', re.IGNORECASE)


def next_look(creator: ObjectMeta, known: FailedCreate | None) -> datetime | None:
    """Return when the events of an object without pods are read next; None if that is unknown."""
    if known is not None:
        return known.asked_at + _INTERVAL
    created = time_of(creator.creation_timestamp)
    return created + _PATIENCE if created is not None else None


def events_of(creator: ObjectMeta, now: datetime) -> FailedCreates:
    """Return the lookup that reads the events of an object now."""
    return FailedCreates(creator.namespace, creator.uid, now)


def last_refusal(events: Iterable[Any]) -> str:
    """Return why the last pod could not be created; empty if it could, or if no event tells.

    The sentence has no name of a pod, since each attempt has another.
    """
    told = [mapping(event) for event in events]
    told = [event for event in told if event.get("reason") in {_FAILED, _CREATED}]
    none: dict[str, Any] = {}
    last = max(told, key=_moment, default=none)
    if last.get("reason") != _FAILED:
        return ""
    return _NAMED_POD.sub("the pod", _WHO_FAILED.sub("", str(last.get("note") or "")))


def refused_pod(creator: ObjectMeta, message: str) -> Failure:
    """Return the refusal that an event told of, as the failure of a create of our own."""
    reason = next((why for sign, why in _REASONS if sign in message), "")
    return refused_create(
        Target(PODS, creator.namespace, creator.name), CreateError(reason, message)
    )


def cause_of_missing_pod(
    resource: Resource[Any],
    creator: ObjectMeta,
    found: FailedCreate | None,
    words: Mapping[Reason, str],
) -> tuple[str, str] | None:
    """Return reason and sentence about an object that lacks a pod; None if no cause is known."""
    title = f"{resource.kind} {creator.name}"
    if found is None or not (found.message or found.unavailable):
        return None
    if found.unavailable:
        return PODS_MISSING, (
            f"{title} lacks a pod; `kubectl describe {resource.kind.lower()} {creator.name}` tells "
            f"why. The operator cannot read its events: {found.unavailable}; allow it the verb "
            "list on events.events.k8s.io"
        )
    failure = refused_pod(creator, found.message)
    remedy = remedy_of(failure, _POD_REMEDIES | dict(words))
    return refusal_of(failure).name, with_remedy(
        f"{title} cannot create its pod: {found.message}", remedy
    )


def suspension_of(job: ObjectMeta, owners: str) -> str:
    """Return a sentence about a Job of ours that another manager has suspended."""
    return (
        f"Job {job.name} is suspended and creates no pod: another manager, such as Kueue, has set "
        f"its spec.suspend; let it admit the Job, or exempt Jobs of {owners}s from it"
    )


def _moment(event: dict[str, Any]) -> str:
    """Return the time of its last occurrence, of which all have one form."""
    times = (
        mapping(event.get("series")).get("lastObservedTime"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
        mapping(event.get("metadata")).get("creationTimestamp"),
    )
    moments = filter(None, (time_of(str(each)) for each in times if each))
    return max((each.isoformat(timespec="microseconds") for each in moments), default="")
