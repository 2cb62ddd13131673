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
    """The next step of an upgrade under way; the usual creates and deletes of pods wait meanwhile.

    Attributes:
        lookups: what must be read before anything is written.
        stages: writes, stage after stage.
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
        """A clause about what becomes of outdated pods, for that condition's message."""
        ...

    def is_due(self, seen: ClusterObservation, desired: DesiredCluster) -> bool:
        """Return whether running pods are to be replaced because of the specification."""
        ...

    def next_step(self, seen: ClusterObservation, desired: DesiredCluster) -> UpgradeStep | None:
        """The next step of an upgrade, None if none is under way."""
        ...

    def stamps(self, seen: ClusterObservation, desired: DesiredCluster) -> Sequence[Write]:
        """Corrections of what pods carry about the specification that they were made from."""
        ...


@dataclass(frozen=True, slots=True)
class NoUpgrade:
    """Running pods stay as they are; the condition says so."""

    reason: str = UPGRADE_STRATEGY_NONE
    outlook: str = (
        "upgradeStrategy does not replace running pods, so the change reaches new ones only"
    )

    def is_due(self, seen: ClusterObservation, desired: DesiredCluster) -> bool:
        """Never."""
        del seen, desired
        return False

    def next_step(self, seen: ClusterObservation, desired: DesiredCluster) -> UpgradeStep | None:
        """None: nothing is replaced."""
        del seen, desired
        return None

    def stamps(self, seen: ClusterObservation, desired: DesiredCluster) -> Sequence[Write]:
        """None: nothing is compared."""
        del seen, desired
        return ()
