"""KubeRay's metrics of RayServices and Manta's own, computed from the cache when scraped.

Reconciles count nothing, so a deleted RayService leaves no metrics behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import READY, find_condition, is_true, time_of
from controller.apimachinery.custom_object import mapping, status_of
from controller.ray.service.observation import ACTIVE, PENDING
from controller.ray.service.settings import (
    ROLLBACK_IN_PROGRESS,
    SUSPENDED,
    SUSPENDING,
    UPGRADE_IN_PROGRESS,
)
from controller.runtime.collectors import ObjectCollector, identity, object_gauge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from prometheus_client.core import GaugeMetricFamily, Metric

    from controller.ray.api.rayservice import RayService


_ROLES: Final = {ACTIVE: "active", PENDING: "pending"}
_FULL: Final = 100
_STATES: Final = {
    SUSPENDED: "suspended",
    SUSPENDING: "suspending",
    ROLLBACK_IN_PROGRESS: "rolling_back",
    UPGRADE_IN_PROGRESS: "upgrading",
    READY: "serving",
}


class ServiceCollector(ObjectCollector["RayService"]):
    """Collects `kuberay_service_*` and `manta_service_*`.

    Args:
        read: returns all RayServices in the cache.
        wall: returns the time of day in UTC.
    """

    def __init__(
        self, read: Callable[[], Iterable[RayService]], wall: Callable[[], datetime]
    ) -> None:
        super().__init__(read)
        self._wall = wall

    def metrics(self, current: Iterable[RayService], /) -> Iterable[Metric]:
        """Yield the samples of every RayService."""
        info, ready, upgrading, states, endpoints, capacity, weight, seconds = families = (
            _families()
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


def _families() -> tuple[GaugeMetricFamily, ...]:
    described: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("kuberay_service_info", "Metadata information about RayService custom resources", ()),
        (
            "kuberay_service_condition_ready",
            "Whether the RayService serves: its condition Ready",
            ("condition",),
        ),
        (
            "kuberay_service_condition_upgrade_in_progress",
            "Whether another cluster is taking over: the condition UpgradeInProgress",
            ("condition",),
        ),
        (
            "manta_service_state",
            (
                "State of a RayService: serving, not_ready, upgrading, rolling_back, suspending or "
                "suspended"
            ),
            ("state",),
        ),
        ("manta_service_endpoints", "Ready pods behind the stable service of a RayService", ()),
        (
            "manta_service_capacity_percent",
            "Serve's target capacity of a cluster of a RayService",
            ("ray_cluster", "role"),
        ),
        (
            "manta_service_weight_percent",
            "Share of the requests that a cluster of a RayService gets",
            ("ray_cluster", "role"),
        ),
        (
            "manta_service_upgrade_seconds",
            "Seconds that the upgrade of a RayService under way has lasted, rollback included",
            (),
        ),
    )
    return tuple(object_gauge(name, text, *more) for name, text, more in described)
