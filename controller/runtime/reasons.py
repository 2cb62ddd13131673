"""Reasons for which an object is not as it should be, with what they mean and the next step.

One catalogue, from which conditions, events, the manual and `manta plan` take their words. Here are
those of writes that the API server refuses, which all kinds share; a kind adds its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Severity(IntEnum):
    """The severity of a cause; smaller values are more severe."""

    ACTION_REQUIRED = 0
    TRANSIENT = 1
    IN_PROGRESS = 2


@dataclass(frozen=True, slots=True)
class Reason:
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
