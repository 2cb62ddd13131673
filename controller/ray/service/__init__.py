"""The RayService controller: Serve applications on Ray clusters that are replaced safely.

`rollout.py` decides the next step of an upgrade or a rollback.
"""

from __future__ import annotations

from controller.ray.service.kind import RayServiceKind
from controller.ray.service.metrics import ServiceCollector
from controller.ray.service.settings import ServiceSettings

__all__ = ["RayServiceKind", "ServiceCollector", "ServiceSettings"]
