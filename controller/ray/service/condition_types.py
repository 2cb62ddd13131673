"""Types of the conditions of a RayService, KubeRay's."""

from __future__ import annotations

from typing import Final

UPGRADE_IN_PROGRESS: Final = "UpgradeInProgress"
ROLLBACK_IN_PROGRESS: Final = "RollbackInProgress"
SUSPENDING: Final = "Suspending"
SUSPENDED: Final = "Suspended"
