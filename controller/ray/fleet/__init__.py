"""RayClusterFleets: copies of one RayCluster that are replaced one after the other.

`rollout.py` decides which copies are created and which retire.
"""

from __future__ import annotations

from controller.ray.fleet.kind import RayClusterFleetKind
from controller.ray.fleet.settings import FleetSettings
from controller.ray.fleet.status.metrics import FleetCollector

__all__ = ["FleetCollector", "FleetSettings", "RayClusterFleetKind"]
