"""The RayService kind: observing, planning and status for the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.custom_object import IdentityMemo, SpecificationMemo
from controller.apimachinery.problem import Problem
from controller.ray.api.definitions.crds import unknown_field_finder
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.dashboard import NO_DASHBOARDS
from controller.ray.head.endpoint import read_cluster_spec
from controller.ray.service.clusters import needs_identity
from controller.ray.service.identity import read_config
from controller.ray.service.observation import definitions_reader, read_goal
from controller.ray.service.observe import WATCHES, ServiceSources, observe_service
from controller.ray.service.plan import plan_service
from controller.ray.service.settings import ServiceSettings
from controller.ray.service.status import current_status, without_generation
from controller.runtime.kind import Kind
from controller.runtime.reconcile.definitions import is_left_as_it_is, remember

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.api.rayservice import RayService
    from controller.ray.dashboard import Dashboards, HeadCommand, ProbeSubscription
    from controller.ray.service.observation import ServiceGoal, ServiceObservation
    from controller.runtime.kind import CacheReader
    from controller.runtime.plan import ExternalSource, Failure, Plan, StatusPatch


class RayServiceKind(Kind["ServiceObservation"]):
    """Serves applications, and replaces their clusters.

    Args:
        dashboards: Ray's reports.
        external_source: talks to Ray; in an operator the same `ControllerDashboards` as
            `dashboards`.
        settings: settings for all RayServices.
        assumes_serve: whether to assume, in plans without Ray, that Serve runs what it gets.
    """

    primary = RAYSERVICES
    creates = (RAYCLUSTERS,)
    owned = WATCHES
    unready_reason = "Initializing"
    optional = True  # a cluster may have the definition of RayClusters only

    def __init__(
        self,
        dashboards: Dashboards = NO_DASHBOARDS,
        external_source: ExternalSource[ProbeSubscription, HeadCommand] | None = None,
        settings: ServiceSettings | None = None,
        *,
        assumes_serve: bool = False,
    ) -> None:
        self.external_source = external_source
        self._settings = settings or ServiceSettings()
        self._sources = ServiceSources(
            SpecificationMemo(self._read),
            IdentityMemo(read_cluster_spec),
            IdentityMemo(read_config),
            unknown_field_finder(),
            definitions_reader(),
            dashboards,
            self._settings,
            assumes_serve,
        )

    def observe(self, key: str, reads: CacheReader) -> ServiceObservation | None:
        """Return everything that the plan depends on; None if the RayService is gone."""
        return observe_service(key, reads, self._sources)

    def problem(self, observation: ServiceObservation) -> Problem | None:
        """Return the problem of the RayService's specification, None if it is valid."""
        return observation.goal if isinstance(observation.goal, Problem) else None

    def plan(self, observation: ServiceObservation, now: datetime) -> Plan:
        """Return the plan for the RayService."""
        return remember(plan_service(observation, self._settings, now), observation.definition)

    def status_after(
        self,
        observation: ServiceObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the current status, naming the first failed write."""
        if is_left_as_it_is(observation.service, observation.definition):
            return plan.status
        status = current_status(observation, self._settings, now, failures)
        if self.problem(observation) is None and any(map(needs_identity, observation.clusters)):
            return without_generation(status)  # by the stored one such clusters are recognised
        return status

    def _read(self, service: RayService) -> ServiceGoal | Problem:
        return read_goal(service, self._settings)
