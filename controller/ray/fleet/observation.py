"""The input of a fleet's plan: the fleet and its copies at one moment, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import status_of
from controller.apimachinery.problem import Problem
from controller.runtime.reconcile.definitions.installed_definition import InstalledDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from controller.ray.api.rayclusterfleet import FleetSpec, RayClusterFleet
    from controller.ray.fleet.copies import Copy
    from controller.ray.pods.hashes.template_hash import Hash
    from controller.runtime.kind import CreateError

SCOPE: Final = "rayclusters"
"""Scope of all writes to copies, since they share one budget.

While one is of unknown outcome, no copy is created, changed or deleted.
"""


@dataclass(frozen=True, slots=True)
class FleetGoal:
    """The user's goal, read from a valid specification.

    Attributes:
        spec: the specification.
        template_hash: hash of its template.
    """

    spec: FleetSpec
    template_hash: Hash


@dataclass(frozen=True, slots=True)
class FleetObservation:
    """A fleet and its copies.

    Attributes:
        fleet: the RayClusterFleet.
        goal: the user's goal, or the `Problem` that makes the fleet invalid.
        copies: its RayClusters, including terminating ones, by index, the older first.
        name_conflicts: names its copies should get that are not free; the values complete the
            sentence "there is a RayCluster of this name that ...".
        unreadable: the reasons why copies, or their conditions, cannot be read, by name.
        has_pending_writes: whether the outcome of a write to a copy is unknown.
        create_errors: errors of refused creates, by name of the copy.
        unknown_fields: a sentence that names the unknown fields of its pod templates; may be empty.
        definition: the fields that the installed definitions of fleets and RayClusters lack.
        consistency_warnings: sentences about writes that the cache contradicts.
        clock_steady_since: time since which the clock has not jumped; None if unknown.
    """

    fleet: RayClusterFleet
    goal: FleetGoal | Problem
    copies: tuple[Copy, ...] = ()
    name_conflicts: Mapping[str, str] = field(default_factory=dict[str, str])
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])
    has_pending_writes: bool = False
    create_errors: tuple[tuple[str, CreateError], ...] = ()
    unknown_fields: str = ""
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)
    consistency_warnings: tuple[str, ...] = ()
    clock_steady_since: datetime | None = None

    @property
    def valid_goal(self) -> FleetGoal:
        """The goal of a fleet that is known to be valid."""
        assert not isinstance(self.goal, Problem)
        return self.goal

    @property
    def desired(self) -> int:
        """The number of copies that a valid fleet asks for."""
        return self.valid_goal.spec.replicas

    @property
    def wanted(self) -> tuple[Copy, ...]:
        """The copies with an index of a valid fleet, including terminating ones."""
        return tuple(copy for copy in self.copies if copy.index < self.desired)

    @property
    def surplus(self) -> tuple[Copy, ...]:
        """The copies with an index beyond those of the fleet, including terminating ones."""
        return tuple(copy for copy in self.copies if copy.index >= self.desired)

    @property
    def status(self) -> dict[str, Any]:
        """The present status."""
        return status_of(self.fleet)

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The present conditions."""
        return self.status.get("conditions") or []

    def is_available(self, copy: Copy) -> bool:
        """Return whether a copy is as a valid fleet wants it now."""
        return copy.is_available(fleet_suspended=self.valid_goal.spec.suspended)
