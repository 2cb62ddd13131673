"""The RayClusterFleet kind: observing, planning and status for the runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.problem import Problem
from controller.ray.api.definitions.crds import CLUSTER_FIELDS, unknown_field_finder
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.validation.fleet import validate_fleet
from controller.ray.fleet.observe import FleetGoal, FleetSources, observe_fleet, template_hash
from controller.ray.fleet.plan import plan_fleet
from controller.ray.fleet.status import current_status
from controller.runtime.kind import Kind, Owned
from controller.runtime.reconcile.definitions import (
    DefinitionReader,
    DefinitionsReader,
    is_left_as_it_is,
    remember,
)

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.api.rayclusterfleet import RayClusterFleet
    from controller.ray.fleet.observe import FleetObservation
    from controller.runtime.kind import CacheReader
    from controller.runtime.plan import Failure, Plan, StatusPatch


# Settings of the RayClusterFleet controller.


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """Settings of the RayClusterFleet controller.

    Attributes:
        feature_gates: the enabled features.
    """

    feature_gates: FeatureGates = field(default_factory=FeatureGates)


# Fields on which a fleet's planner relies: without them copies would be replaced without reason.
#
# While a definition lacks such a field, neither a copy of a fleet nor the fleet itself is written:
# a write would store it without the missing fields.

_CLUSTER: Final = (*CLUSTER_FIELDS, "workerGroupSpecs.maxReplicas", "suspend")
RELIED_ON: Final = (
    "spec.replicas",
    "spec.strategy",
    *(f"spec.strategy.{field}" for field in ("maxSurge", "maxUnavailable", "paused")),
    "spec.template",
    "spec.template.metadata",
    "spec.template.spec",
    *(f"spec.template.spec.{field}" for field in _CLUSTER),
    *(f"status.{field}" for field in ("conditions", "desiredReplicas", "templateHash")),
)
"""Fields of a fleet that decide how many copies there are, and which are replaced."""

RELIED_ON_IN_CLUSTERS: Final = (*(f"spec.{field}" for field in _CLUSTER), "status.conditions")
"""Fields of a RayCluster that are compared with the fleet's template, or show its state."""

_CONSEQUENCE: Final = (
    "RayClusterFleets are left as they are: no copy is created, changed or deleted for them"
)


def definitions_reader() -> DefinitionsReader:
    """Return a reader of what the installed definitions of fleets and RayClusters lack."""
    return DefinitionsReader(
        DefinitionReader(RAYCLUSTERFLEETS, lambda _schema: RELIED_ON, _CONSEQUENCE),
        DefinitionReader(RAYCLUSTERS, lambda _schema: RELIED_ON_IN_CLUSTERS, _CONSEQUENCE),
    )


class RayClusterFleetKind(Kind["FleetObservation"]):
    """Keeps copies of a RayCluster, and replaces them within a budget.

    Args:
        settings: settings for all fleets.
    """

    primary = RAYCLUSTERFLEETS
    owned = (Owned(RAYCLUSTERS),)
    creates = (RAYCLUSTERS,)
    optional = True

    def __init__(self, settings: FleetSettings | None = None) -> None:
        self._settings = settings or FleetSettings()
        self._sources = FleetSources(
            SpecificationMemo(self._read), unknown_field_finder(), definitions_reader()
        )

    def observe(self, key: str, reads: CacheReader) -> FleetObservation | None:
        """Return everything that the plan depends on; None if the fleet is gone."""
        return observe_fleet(key, reads, self._sources)

    def problem(self, observation: FleetObservation) -> Problem | None:
        """Return the problem of the fleet's specification, None if it is valid."""
        return observation.goal if isinstance(observation.goal, Problem) else None

    def plan(self, observation: FleetObservation, now: datetime) -> Plan:
        """Return the plan for the fleet."""
        return remember(plan_fleet(observation, now), observation.definition)

    def status_after(
        self,
        observation: FleetObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the current status, naming the first failed write."""
        if is_left_as_it_is(observation.fleet, observation.definition):
            return plan.status
        return current_status(observation, now, failures)

    def _read(self, fleet: RayClusterFleet) -> FleetGoal | Problem:
        spec = validate_fleet(fleet, self._settings.feature_gates)
        return spec if isinstance(spec, Problem) else FleetGoal(spec, template_hash(spec.template))
