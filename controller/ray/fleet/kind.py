"""The RayClusterFleet kind: observing, planning and status for the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.problem import Problem
from controller.ray.api.definitions.unknown_fields import unknown_field_finder
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.validation.fleet import validate_fleet
from controller.ray.fleet.definition import definitions_reader
from controller.ray.fleet.observation import FleetGoal
from controller.ray.fleet.observe import FleetSources, observe_fleet
from controller.ray.fleet.plan import plan_fleet
from controller.ray.fleet.settings import FleetSettings
from controller.ray.fleet.status.current_status import current_status
from controller.ray.fleet.template import template_hash
from controller.runtime.kind import Owned
from controller.runtime.reconcile.definitions.definition_guard import is_left_as_it_is, remember

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kube.resources import Resource
    from controller.ray.api.rayclusterfleet import RayClusterFleet
    from controller.ray.fleet.observation import FleetObservation
    from controller.runtime.kind import CacheReader
    from controller.runtime.plan import Failure, Plan, StatusPatch


class RayClusterFleetKind:
    """Keeps copies of a RayCluster, and replaces them within a budget.

    Args:
        settings: settings for all fleets.
    """

    name = "rayclusterfleet-controller"
    primary: Resource[Any] = RAYCLUSTERFLEETS
    owned: tuple[Owned[Any], ...] = (Owned(RAYCLUSTERS),)
    creates: tuple[Resource[Any], ...] = (RAYCLUSTERS,)
    external_source = None
    unready_reason = ""
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
