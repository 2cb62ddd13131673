"""The RayService kind: observing, planning and status for the runtime; metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace
from prometheus_client.core import Metric

from controller.apimachinery.conditions import READY, find_condition, is_true, time_of
from controller.apimachinery.custom_object import (
    IdentityMemo,
    SpecificationMemo,
    mapping,
    status_of,
)
from controller.apimachinery.validation import Problem
from controller.ray.api.definitions import unknown_field_finder
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayservice import (
    RAYSERVICES,
    ROLLBACK_IN_PROGRESS,
    SUSPENDED,
    SUSPENDING,
    UPGRADE_IN_PROGRESS,
    RayService,
)
from controller.ray.dashboard.commands import NO_DASHBOARDS, Dashboards, HeadCommand
from controller.ray.dashboard.probes import ProbeSubscription
from controller.ray.head import read_cluster_spec
from controller.ray.service.clusters import needs_identity
from controller.ray.service.identity import read_config
from controller.ray.service.observation import (
    ACTIVE,
    PENDING,
    ServiceGoal,
    ServiceObservation,
    definitions_reader,
    read_goal,
)
from controller.ray.service.observe import WATCHES, ServiceSources, observe_service
from controller.ray.service.plan import plan_service
from controller.ray.service.status import current_status, without_generation
from controller.ray.settings import RaySettings
from controller.runtime.definitions import is_left_as_it_is, remember
from controller.runtime.kind import CacheReader, Kind
from controller.runtime.metrics import ObjectCollector, identity, object_gauge
from controller.runtime.plan import ExternalSource, Failure, Plan, StatusPatch


class RayServiceKind(Kind["ServiceObservation"]):
    """Serves applications, and replaces their clusters.

    Args:
        external_source: talks to Ray; in an operator the same `ControllerDashboards` as
            `dashboards`.
        assumes_serve: whether to assume, in plans without Ray, that Serve runs what it gets.
    """

    primary = RAYSERVICES
    creates = (RAYCLUSTERS,)
    owned = WATCHES
    unready_reason = "Initializing"
    optional = True  # a cluster may have the definition of RayClusters only

    def __init__(
        self,
        settings: RaySettings | None = None,
        dashboards: Dashboards = NO_DASHBOARDS,
        external_source: ExternalSource[ProbeSubscription, HeadCommand] | None = None,
        *,
        assumes_serve: bool = False,
    ) -> None:
        self.external_source = external_source
        self._settings = settings or RaySettings()
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
        return remember(plan_service(replace(observation, now=now)), observation.definition)

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
        status = current_status(replace(observation, now=now), failures)
        if self.problem(observation) is None and any(map(needs_identity, observation.clusters)):
            return without_generation(status)  # by the stored one such clusters are recognised
        return status

    def _read(self, service: RayService) -> ServiceGoal | Problem:
        return read_goal(service, self._settings)


# A RayService's metrics: KubeRay's and Manta's own, computed from the cache when scraped.
#
# Reconciles count nothing, so a deleted RayService leaves no metrics behind.

_ROLES: Final = {ACTIVE: "active", PENDING: "pending"}
_FULL: Final = 100
_STATES: Final = {
    SUSPENDED: "suspended",
    SUSPENDING: "suspending",
    ROLLBACK_IN_PROGRESS: "rolling_back",
    UPGRADE_IN_PROGRESS: "upgrading",
    READY: "serving",
}


_GAUGES: Final = (
    ("kuberay_service_info", "Metadata information about RayService custom resources"),
    (
        "kuberay_service_condition_ready",
        "Whether the RayService serves: its condition Ready",
        "condition",
    ),
    (
        "kuberay_service_condition_upgrade_in_progress",
        "Whether another cluster is taking over: the condition UpgradeInProgress",
        "condition",
    ),
    (
        "manta_service_state",
        (
            "State of a RayService: serving, not_ready, upgrading, rolling_back, suspending or "
            "suspended"
        ),
        "state",
    ),
    ("manta_service_endpoints", "Ready pods behind the stable service of a RayService"),
    (
        "manta_service_capacity_percent",
        "Serve's target capacity of a cluster of a RayService",
        "ray_cluster",
        "role",
    ),
    (
        "manta_service_weight_percent",
        "Share of the requests that a cluster of a RayService gets",
        "ray_cluster",
        "role",
    ),
    (
        "manta_service_upgrade_seconds",
        "Seconds that the upgrade of a RayService under way has lasted, rollback included",
    ),
)
"""Names, texts and further labels."""


class ServiceCollector(ObjectCollector["RayService"]):
    """Collects `kuberay_service_*` and `manta_service_*`."""

    def __init__(
        self, read: Callable[[], Iterable[RayService]], wall: Callable[[], datetime]
    ) -> None:
        super().__init__(read)
        self._wall = wall

    def metrics(self, current: Iterable[RayService], /) -> Iterable[Metric]:
        """Yield the samples of every RayService."""
        info, ready, upgrading, states, endpoints, capacity, weight, seconds = families = tuple(
            object_gauge(*each) for each in _GAUGES
        )
        for service in current:
            own, status = identity(service.metadata), status_of(service)
            info.add_metric(own, 1)
            states.add_metric([*own, _state(status)], 1)
            endpoints.add_metric(own, status.get("numServeEndpoints") or 0)
            for family, kind in ((ready, READY), (upgrading, UPGRADE_IN_PROGRESS)):
                family.add_metric([*own, str(_is(status, kind)).lower()], 1)
            for cluster, role, has, carries in _shares(status):
                capacity.add_metric([*own, cluster, role], has)
                weight.add_metric([*own, cluster, role], carries)
            if (since := _upgrading_since(status)) is not None:
                seconds.add_metric(own, max(0.0, (self._wall() - since).total_seconds()))
        return families


def _is(status: Mapping[str, Any], kind: str) -> bool:
    return is_true(status.get("conditions", ()), kind)


def _state(status: Mapping[str, Any]) -> str:
    """Return the first of the states that applies."""
    for kind, state in _STATES.items():
        if _is(status, kind):
            return state
    return "not_ready"


def _shares(status: Mapping[str, Any]) -> Iterator[tuple[str, str, float, float]]:
    """Yield name, role, capacity and weight of each cluster, in percent."""
    for field, role in _ROLES.items():
        found = mapping(status.get(field))
        name = found.get("rayClusterName")
        if isinstance(name, str) and name:
            carries = _FULL if role == "active" else 0
            yield (
                name,
                role,
                _number(found.get("targetCapacity"), _FULL),
                _number(found.get("trafficRoutedPercent"), carries),
            )


def _number(value: Any, default: int) -> float:
    return value if isinstance(value, int | float) else default


def _upgrading_since(status: Mapping[str, Any]) -> datetime | None:
    """Return the time when the present upgrade began; None if there is none."""
    found = find_condition(status.get("conditions", ()), UPGRADE_IN_PROGRESS) or {}
    if found.get("status") != "True":
        return None
    return time_of(found.get("lastTransitionTime"))
