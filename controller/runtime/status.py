"""The status of an object: when it is written, what has changed, and who holds a child."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, cast

import msgspec

from controller.apimachinery.conditions import (
    CHILD_HELD,
    LONGEST_MESSAGE,
    READY,
    ConditionSet,
    find_condition,
    rfc3339,
    time_of,
    without_times,
)
from controller.apimachinery.patches import difference
from controller.apimachinery.redaction import fold
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import PODS, Resource
from controller.runtime.kind import CacheReader, Owned, OwnerIdentity, owned_by
from controller.runtime.plan import Event, MergePatch, StatusPatch, Target

# Compares a wanted status with the present one.
#
# A failing object is reconciled again and again, and the server may word each refusal differently.
# A condition keeps its message if the new one differs only in ids, numbers and the like. The
# messages of `records`, types of conditions, are more than words.

_CONDITIONS: Final = "conditions"


def stored_status(obj: KubeObject) -> Mapping[str, Any]:
    """Return the present status as plain data, with the field names of the API."""
    status: Any = msgspec.to_builtins(getattr(obj, "status", None))
    return cast("Mapping[str, Any]", status) if isinstance(status, Mapping) else {}


def conditions_in(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions of a status, without members that are not objects."""
    listed: Any = status.get(_CONDITIONS)
    for each in cast("list[Any]", listed) if isinstance(listed, list | tuple) else ():
        if isinstance(each, Mapping):
            yield cast("Mapping[str, Any]", each)


def keep_messages(
    present: Mapping[str, Any], wanted: Mapping[str, Any], records: Collection[str] = ()
) -> dict[str, Any]:
    """Return the wanted status, with the present message of each condition that means the same."""
    if _CONDITIONS not in wanted:
        return dict(wanted)
    said = {_outcome(each): str(each.get("message", "")) for each in conditions_in(present)}
    kept: list[Mapping[str, Any]] = []
    for each in conditions_in(wanted):
        message = str(each.get("message", ""))
        before = message if _is_record(each, records) else said.get(_outcome(each), message)
        kept.append({**each, "message": before} if _say_the_same(before, message) else each)
    return {**wanted, _CONDITIONS: kept}


def changes_only_messages(
    present: Mapping[str, Any], patch: Mapping[str, Any], records: Collection[str] = ()
) -> bool:
    """Return whether a patch of the status changes nothing but the messages of conditions."""
    if set(patch) != {_CONDITIONS}:
        return False
    return _told(present, records) == _told(patch, records)


def changes_a_record(
    present: Mapping[str, Any], patch: Mapping[str, Any], records: Collection[str]
) -> bool:
    """Return whether a patch changes a condition of these types, or removes or adds one."""
    return _CONDITIONS in patch and _records(present, records) != _records(patch, records)


def _say_the_same(before: str, message: str) -> bool:
    """Return whether the folds are equal, up to the end of messages that were cut."""
    if len(before) < LONGEST_MESSAGE or len(message) < LONGEST_MESSAGE:
        return fold(before) == fold(message)
    one, other = (fold(text.rsplit(" ", 1)[0]) for text in (before, message))  # less a cut word
    return one.startswith(other) or other.startswith(one)


def _told(status: Mapping[str, Any], records: Collection[str]) -> list[tuple[str, ...]]:
    """Return the outcome of each condition, with the message of each record."""
    return [
        (*_outcome(each), str(each.get("message")) if _is_record(each, records) else "")
        for each in conditions_in(status)
    ]


def _records(status: Mapping[str, Any], records: Collection[str]) -> list[tuple[str, ...]]:
    listed = (each for each in conditions_in(status) if _is_record(each, records))
    return [(*_outcome(each), str(each.get("message"))) for each in listed]


def _is_record(condition: Mapping[str, Any], records: Collection[str]) -> bool:
    return str(condition.get("type")) in records


def _outcome(condition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return type, status and reason as text: other writers may have stored any value."""
    return tuple(str(condition.get(field)) for field in ("type", "status", "reason"))


# The status of an object whose reconcile raised an exception.
#
# The kind itself failed and cannot compute the status. Only the condition `Ready` changes, which
# every kind sets itself as soon as it can reconcile again. A kind whose API defines the reasons of
# `Ready` (a RayService) gets no reason of ours.


def error_status(
    primary: KubeObject, reason: str, message: str, now: datetime, unready_reason: str = ""
) -> StatusPatch:
    """Return the status with `Ready` False because of this error, and the rest unchanged.

    With an `unready_reason` (`Kind.unready_reason`), `Ready` keeps its status and reason: whether
    the object is ready is not known, and its message names the error.
    """
    present = [*conditions_in(stored_status(primary))]
    generation = primary.metadata.generation
    if not unready_reason:
        conditions = ConditionSet(present, generation, now)
        conditions.set(READY, "False", reason, message)
        return StatusPatch({"conditions": conditions.as_list()})
    found = find_condition(present, READY) or {}
    status = "True" if found.get("status") == "True" else "False"
    conditions = ConditionSet(present, found.get("observedGeneration", generation), now)
    conditions.set(READY, status, found.get("reason") or unready_reason, f"{reason}: {message}")
    return StatusPatch({"conditions": conditions.as_list()})


# Decides whether a status is written now, later or not at all.

MESSAGE_INTERVAL: Final = 300.0
"""Minimum seconds from a status write that names a failure to one that only changes messages."""


class StatusDecision(msgspec.Struct, frozen=True):
    """A decision about one status.

    Attributes:
        patch: merge patch of the status to write now; None to write nothing.
        wait: seconds until the status is due; None if it is written now or not at all.
        wanted: the wanted status, with the messages that stay.
    """

    patch: dict[str, Any] | None = None
    wait: float | None = None
    wanted: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])


@dataclass(slots=True)
class StatusHistory:
    """The writes of one object's status, which decide when the next one is due.

    Attributes:
        written_at: monotonic seconds of the last one.
        named_failure_at: monotonic seconds of the last one that named a failure.
        changed_at: monotonic seconds since when a change has been held back.
        pruned: the fields of the last one that the server did not keep.
    """

    written_at: float = -math.inf
    named_failure_at: float = -math.inf
    changed_at: float = math.inf
    pruned: dict[str, Any] = field(default_factory=dict[str, Any])

    def decide(
        self,
        obj: KubeObject,
        status: StatusPatch,
        wanted: Mapping[str, Any],
        now: float,
        *,
        failing: bool,
    ) -> StatusDecision:
        """Decide about the status of the object at `now`, monotonic seconds.

        `wanted` is that of the plan's `status` with the conditions that the runtime adds. If the
        status reports a failure, new messages alone are written only after `MESSAGE_INTERVAL`.
        """
        present = stored_status(obj)
        wanted = keep_messages(present, wanted, status.records) if failing else wanted
        patch = difference(present, wanted)
        if not patch or (self.pruned and without_times(patch) == self.pruned):
            self.changed_at = math.inf
            return StatusDecision()
        self.changed_at = min(self.changed_at, now)
        if failing and changes_only_messages(present, patch, status.records):
            if self.named_failure_at + MESSAGE_INTERVAL > now:
                return StatusDecision()
        else:
            due = -math.inf if status.urgent else self.written_at + status.interval
            settles = 0.0 if changes_a_record(present, patch, status.records) else status.settles
            rest = max(due, self.changed_at + settles) - now
            if rest > 0:
                return StatusDecision(wait=rest)
        return StatusDecision(patch, wanted=wanted)

    def written(
        self, stored: KubeObject, wanted: Mapping[str, Any], now: float, *, names_failure: bool
    ) -> None:
        """Record a written status and the fields that the server pruned.

        KubeRay's definitions prune some of Manta's fields; writing them again would change nothing.
        Times are not compared, because a pruned condition gets a new one in every plan.
        """
        self.written_at, self.changed_at = now, math.inf
        if names_failure:
            self.named_failure_at = now
        self.pruned = without_times(difference(stored_status(stored), wanted))


# The patch that stores a step of a state machine in the status before its effects.
#
# It is for `Plan.commit`. Its precondition is the observed resourceVersion, so the whole step is
# stored exactly once or not at all.


def status_commit(
    resource: Resource[Any],
    meta: ObjectMeta,
    scope: str,
    status: Mapping[str, Any],
    on_success: Event | None = None,
) -> MergePatch:
    """Return the patch of an object's status."""
    return MergePatch(
        Target(resource, meta.namespace, meta.name, scope),
        meta.uid,
        {"status": status},
        subresource="status",
        resource_version=meta.resource_version,
        on_success=on_success,
    )


# The condition that names children whose deletion a finalizer of somebody else holds up.
#
# It is the same for every kind. Pods are exempt: RayClusters name theirs, with the remedy. So is a
# finalizer that names the API group of its object: it is of the controller that the object is for.

NAMED_AFTER: Final = timedelta(minutes=2)
"""Time for which a deletion may take long without being named: most finalizers go by themselves."""

_OF_THE_COLLECTOR: Final = frozenset({"foregroundDeletion", "orphan"})
_OF_KUBERNETES: Final = "kubernetes.io"
_MOST_NAMED: Final = 8


class HeldChild:
    """A child that is being deleted and that finalizers of others keep.

    Args:
        finalizers: those of others.
    """

    def __init__(
        self, resource: Resource[Any], child: KubeObject, finalizers: Sequence[str]
    ) -> None:
        self._since = time_of(child.metadata.deletion_timestamp)
        self._what = f"{resource.kind} {child.metadata.name}"
        self._finalizers = finalizers

    def seconds_until_named(self, now: datetime) -> float:
        """Return the seconds until it is to be named; not above zero if it is."""
        if self._since is None:
            return 0.0
        return (self._since + NAMED_AFTER - now).total_seconds()

    def __str__(self) -> str:
        """Return the sentence of the condition."""
        since = "" if self._since is None else f" since {rfc3339(self._since)}"
        noun = "finalizer" if len(self._finalizers) == 1 else "finalizers"
        return (
            f"{self._what} is being deleted{since}, but kept by the {noun} "
            f"{', '.join(self._finalizers)}: the controller that set it must remove it; if there "
            "is none any more, remove it by hand"
        )


def held_children(
    owned: Iterable[Owned[Any]], reads: CacheReader, owner: OwnerIdentity
) -> tuple[HeldChild, ...]:
    """Return the children of an owner that are held, but for pods."""
    return tuple(_held_children(owned, reads, owner))


def _held_children(
    owned: Iterable[Owned[Any]], reads: CacheReader, owner: OwnerIdentity
) -> Iterator[HeldChild]:
    for each in owned:
        if each.resource is PODS or not reads.serves(each.resource):
            continue
        children: list[KubeObject] = owned_by(reads, each.resource, owner)
        for child in children:
            if child.metadata.terminating and (found := _foreign(each.resource, child)):
                yield HeldChild(each.resource, child, found)


def _foreign(resource: Resource[Any], child: KubeObject) -> list[str]:
    """Return the finalizers that neither the collector nor the object's own controller removes."""
    own = resource.group if "." in resource.group else _OF_KUBERNETES
    return [
        each
        for each in child.metadata.finalizers
        if each not in _OF_THE_COLLECTOR and own not in each
    ]


def named_children(held: Iterable[HeldChild], now: datetime) -> str:
    """Return the sentences about those that are to be named; empty if there are none."""
    sentences = sorted(str(each) for each in held if each.seconds_until_named(now) <= 0)
    more = len(sentences) - _MOST_NAMED
    rest = [f"and so are {more} more"] if more > 0 else []
    return "; ".join([*sentences[:_MOST_NAMED], *rest])


def with_held_children(
    wanted: Mapping[str, Any], message: str, generation: int, now: datetime
) -> Mapping[str, Any]:
    """Return the wanted status with the condition, unless it has no conditions."""
    if "conditions" not in wanted:
        return wanted
    conditions = ConditionSet(wanted["conditions"], generation, now)
    conditions.set_if(CHILD_HELD, "True", "ForeignFinalizer", message)
    return {**wanted, "conditions": conditions.as_list()}


def event_of_held_children(stored: Mapping[str, Any], message: str) -> tuple[Event, ...]:
    """Return the event that reports what no stored condition has reported yet."""
    if not message or find_condition(stored.get("conditions", ()), CHILD_HELD) is not None:
        return ()
    return (Event("Warning", CHILD_HELD, "Delete", message),)


# Patches that add or remove one finalizer and keep all others.
#
# Both are for `Plan.commit`. They replace the whole list, with the resourceVersion as precondition,
# so that a concurrent change leads to a conflict.


def add_finalizer(target: Target, meta: ObjectMeta, finalizer: str) -> MergePatch | None:
    """Return the patch that adds `finalizer`, None if it is there already."""
    if finalizer in meta.finalizers:
        return None
    return _replace(target, meta, [*meta.finalizers, finalizer])


def remove_finalizer(
    target: Target, meta: ObjectMeta, finalizer: str, *, on_success: Event | None = None
) -> MergePatch | None:
    """Return the patch that removes `finalizer`, None if it is not there."""
    if finalizer not in meta.finalizers:
        return None
    left = (each for each in meta.finalizers if each != finalizer)
    return _replace(target, meta, left, on_success)


def _replace(
    target: Target, meta: ObjectMeta, finalizers: Iterable[str], on_success: Event | None = None
) -> MergePatch:
    return MergePatch(
        target,
        meta.uid,
        {"metadata": {"finalizers": list(finalizers)}},
        resource_version=meta.resource_version,
        on_success=on_success,
    )
