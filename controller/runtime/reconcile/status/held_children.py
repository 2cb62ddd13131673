"""The condition that names children whose deletion a finalizer of somebody else holds up.

It is the same for every kind. Pods are exempt: RayClusters name theirs, with the remedy. So is a
finalizer that names the API group of its object: it is of the controller that the object is for.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import (
    CHILD_HELD,
    ConditionSet,
    find_condition,
    rfc3339,
    time_of,
)
from controller.kube.resources import PODS
from controller.runtime.kind import owned_by
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource
    from controller.runtime.kind import CacheReader, Owned, OwnerIdentity

NAMED_AFTER: Final = timedelta(minutes=2)
"""Time for which a deletion may take long without being named: most finalizers go by themselves."""

_OF_THE_COLLECTOR: Final = frozenset({"foregroundDeletion", "orphan"})
_OF_KUBERNETES: Final = "kubernetes.io"
_MOST_NAMED: Final = 8


class HeldChild:
    """A child that is being deleted and that finalizers of others keep.

    Args:
        resource: its resource.
        child: the child.
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
