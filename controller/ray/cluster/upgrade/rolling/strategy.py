"""`upgradeStrategy: RollingUpdate` as one of the strategies."""

from __future__ import annotations

from dataclasses import dataclass

from controller.ray.cluster.upgrade.strategy import NoUpgrade


@dataclass(frozen=True, slots=True)
class RollingStrategy(NoUpgrade):
    """Replaces outdated pods by the usual creates and deletes, as `decision.py` decides."""

    reason: str = "UpgradeStrategyRollingUpdate"
    outlook: str = "the condition Upgrading says how they are replaced"
