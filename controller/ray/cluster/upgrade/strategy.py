"""The interface of upgrade strategies, and the strategy `None`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from controller.ray.api.cluster_condition_types import UPGRADE_STRATEGY_NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.runtime.plan import LiveList, Write


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """The next step of an upgrade, during which the usual creates and deletes of pods wait.

    Attributes:
        lookups: reads that must come before any write.
        stages: writes by stage.
    """

    lookups: tuple[LiveList, ...] = ()
    stages: tuple[Sequence[Write], ...] = ()


class UpgradeStrategy(Protocol):
    """A value of `spec.upgradeStrategy.type`."""

    @property
    def reason(self) -> str:
        """Reason of the condition `PodsUpToDate` while pods are outdated."""
        ...

    @property
    def outlook(self) -> str:
        """A clause about the future of outdated pods, for that condition's message."""
        ...

    def is_due(self, seen: ClusterObservation, desired: DesiredCluster) -> bool:
        """Return whether running pods are to be replaced because of the specification."""
        ...

    def next_step(self, seen: ClusterObservation, desired: DesiredCluster) -> UpgradeStep | None:
        """Return the next step of an upgrade, None if none is in progress."""
        ...

    def stamps(self, seen: ClusterObservation, desired: DesiredCluster) -> Sequence[Write]:
        """Return writes that correct what pods record about their specification."""
        ...


@dataclass(frozen=True, slots=True)
class NoUpgrade:
    """Keeps running pods; the condition reports outdated ones."""

    reason: str = UPGRADE_STRATEGY_NONE
    outlook: str = (
        "upgradeStrategy does not replace running pods, so the change reaches new ones only"
    )

    def is_due(self, seen: ClusterObservation, desired: DesiredCluster) -> bool:
        """Return False."""
        del seen, desired
        return False

    def next_step(self, seen: ClusterObservation, desired: DesiredCluster) -> UpgradeStep | None:
        """Return None: nothing is replaced."""
        del seen, desired
        return None

    def stamps(self, seen: ClusterObservation, desired: DesiredCluster) -> Sequence[Write]:
        """Return no writes: nothing is compared."""
        del seen, desired
        return ()
