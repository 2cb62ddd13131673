"""The copies of a fleet, as their RayClusters show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.apimachinery.conditions import CONTESTED, READY, find_condition, is_true, time_of
from controller.apimachinery.custom_object import conditions_of, mapping
from controller.ray.api.cluster_condition_types import HEAD_POD_READY, PROVISIONED, SUSPENDED

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.api.raycluster import RayCluster


@dataclass(frozen=True, slots=True)
class Copy:
    """One RayCluster of a fleet.

    Attributes:
        cluster: the object.
        index: index of the copy, which its replacement inherits.
        up_to_date: whether it was created from the present template.
    """

    cluster: RayCluster
    index: int
    up_to_date: bool = True

    @property
    def name(self) -> str:
        """Name of the RayCluster."""
        return self.cluster.metadata.name

    @property
    def stays(self) -> bool:
        """True if it is not being deleted."""
        return not self.cluster.metadata.terminating

    @property
    def ready(self) -> bool:
        """True if its head and all workers are ready."""
        return self.stays and self._is(READY)

    @property
    def suspended(self) -> bool:
        """True if it is suspended and all its pods are gone."""
        return self.stays and self._is(SUSPENDED)

    @property
    def was_of_use(self) -> bool:
        """True if it may do or hold work: its head is ready, or all of it is or once was."""
        return self._is(HEAD_POD_READY) or self._is(PROVISIONED)

    @property
    def message(self) -> str:
        """The reason why it is not ready and who changes it, in the words of the RayCluster."""
        if not self.stays:
            return "it is being deleted"
        found = find_condition(conditions_of(self.cluster), READY) or {}
        message = str(found.get("message") or "it has not reported yet")
        return f"{message}; {self.contested}".removesuffix("; ")

    @property
    def contested(self) -> str:
        """The fields that another writer keeps changing, as the RayCluster reports; else empty."""
        found = find_condition(conditions_of(self.cluster), CONTESTED) or {}
        return str(found.get("message") or "")

    @property
    def progressed(self) -> tuple[datetime, ...]:
        """The times when it was created and when it became ready."""
        ready = find_condition(conditions_of(self.cluster), READY) or {}
        since = ready.get("lastTransitionTime") if self.ready else None
        found = (self.cluster.metadata.creation_timestamp, since)
        return tuple(moment for text in found if (moment := time_of(text)) is not None)

    @property
    def is_told_to_suspend(self) -> bool:
        """True if its specification asks for its suspension."""
        return mapping(self.cluster.spec).get("suspend") is True

    def is_available(self, *, fleet_suspended: bool) -> bool:
        """Return whether it is as it should be: ready, or suspended if the fleet is."""
        return self.suspended if fleet_suspended else self.ready

    def _is(self, condition: str) -> bool:
        return is_true(conditions_of(self.cluster), condition)
