"""Pods that an object of ours could not create, such as those of a Job that a LimitRange refuses.

Jobs and StatefulSets tell of them in events only. Events are not watched: those of one object are
read when it has had no pod for some seconds, and again from time to time.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import mapping
from controller.kube.resources import PODS
from controller.runtime.kind import CreateError
from controller.runtime.plan import FailedCreates, Target
from controller.runtime.refusals import (
    RefusalReason,
    refusal_of,
    refused_create,
    remedy_of,
    with_remedy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from controller.kube.objects import ObjectMeta
    from controller.kube.resources import Resource
    from controller.runtime.kind import FailedCreate
    from controller.runtime.plan import Failure

_PATIENCE: Final = timedelta(seconds=5)
"""The time that an object may take to create its first pod."""

_INTERVAL: Final = timedelta(seconds=30)
"""The time between two looks at the events of one object."""

PODS_MISSING: Final = "PodsMissing"
"""The reason for which an object is said to lack a pod if its events cannot be read."""

_REMEDIES: Final = {RefusalReason.WRITE_REFUSED: "Kubernetes tries again"}

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
    words: Mapping[RefusalReason, str],
) -> tuple[str, str] | None:
    """Return reason and sentence about an object that lacks a pod; None if no cause is known.

    Args:
        resource: resource of the object.
        creator: its metadata.
        found: what its events say; None before they were read.
        words: remedies that name the fields in which its pods are described.
    """
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
    remedy = remedy_of(failure, _REMEDIES | dict(words))
    return refusal_of(failure).value, with_remedy(
        f"{title} cannot create its pod: {found.message}", remedy
    )


def suspension_of(job: ObjectMeta, owners: str) -> str:
    """Return a sentence about a Job of ours that another manager has suspended.

    Args:
        job: metadata of the Job.
        owners: the kind of its owner.
    """
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
