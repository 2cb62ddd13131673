"""Upgrades: how a changed specification reaches the pods of a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.ray.api.fields.upgrade_strategy import ROLLING_UPDATE
from controller.ray.cluster.upgrade.changed_options import pods_with_former_options
from controller.ray.cluster.upgrade.outdated_pods import outdated_pods
from controller.ray.cluster.upgrade.recreate import Recreate
from controller.ray.cluster.upgrade.rolling.strategy import RollingStrategy
from controller.ray.cluster.upgrade.strategy import NoUpgrade, UpgradeStrategy

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec

__all__ = ["UpgradeStrategy", "outdated_pods", "pods_with_former_options", "strategy_of"]

_NO_UPGRADE: Final = NoUpgrade()
_STRATEGIES: Final[dict[str | None, UpgradeStrategy]] = {
    "Recreate": Recreate(),
    ROLLING_UPDATE: RollingStrategy(),
}


def strategy_of(spec: ClusterSpec) -> UpgradeStrategy:
    """Return the strategy that the specification names; validation refuses unknown ones."""
    return _STRATEGIES.get(spec.upgrade_strategy.type, _NO_UPGRADE)
