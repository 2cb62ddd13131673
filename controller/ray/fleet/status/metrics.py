"""Metrics of fleets, computed from the cache when scraped.

Reconciles count nothing, so a deleted fleet leaves no metrics behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.custom_object import mapping, status_of
from controller.ray.fleet.condition_types import UP_TO_DATE, UPGRADING
from controller.runtime.metrics.collectors import ObjectCollector, identity, object_gauge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from controller.ray.api.rayclusterfleet import RayClusterFleet

_COUNTS: Final = {
    "replicas": ("manta_fleet_replicas", "Copies of a RayClusterFleet that exist and stay"),
    "readyReplicas": ("manta_fleet_ready_replicas", "Indexes of a RayClusterFleet that are ready"),
    "updatedReplicas": (
        "manta_fleet_updated_replicas",
        "Copies of a RayClusterFleet that were created from its present template",
    ),
}


class FleetCollector(ObjectCollector["RayClusterFleet"]):
    """Collects `manta_fleet_*`."""

    def metrics(self, current: Iterable[RayClusterFleet], /) -> Iterable[Metric]:
        """Yield the samples of every fleet."""
        counts = {field: object_gauge(*described) for field, described in _COUNTS.items()}
        desired = object_gauge(
            "manta_fleet_desired_replicas", "Copies that a RayClusterFleet asks for"
        )
        upgrade = object_gauge(
            "manta_fleet_upgrade",
            "1 while outdated copies of a RayClusterFleet are left, by the reason of its condition "
            "Upgrading: Rolling, Paused or ProgressDeadlineExceeded",
            "reason",
        )
        for fleet in current:
            own, status = identity(fleet.metadata), status_of(fleet)
            wanted = mapping(fleet.spec).get("replicas", 1)
            if isinstance(wanted, int):
                desired.add_metric(own, wanted)
            for field, family in counts.items():
                family.add_metric(own, status.get(field) or 0)
            found = find_condition(status.get("conditions", ()), UPGRADING) or {}
            reason = found.get("reason", UP_TO_DATE)
            if reason != UP_TO_DATE:
                upgrade.add_metric([*own, reason], 1)
        return (desired, *counts.values(), upgrade)
