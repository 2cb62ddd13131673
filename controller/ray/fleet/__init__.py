"""RayClusterFleets: copies of one RayCluster that are replaced one after the other.

`rollout.py` decides which copies are created and which retire.
"""

from __future__ import annotations

from controller.ray.fleet.kind import FleetSettings, RayClusterFleetKind
from controller.ray.fleet.status import FleetCollector

__all__ = ["FleetCollector", "FleetSettings", "RayClusterFleetKind"]
