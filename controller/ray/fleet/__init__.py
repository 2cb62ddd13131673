"""RayClusterFleets: copies of one RayCluster that are replaced one after the other.

`observe.py` gathers the copies, `kind.py` decides which are created and which retire, `status.py`
reports the upgrade and the first cause.
"""

from __future__ import annotations

from controller.ray.fleet.kind import RayClusterFleetKind
from controller.ray.fleet.status import FleetCollector

__all__ = ["FleetCollector", "RayClusterFleetKind"]
