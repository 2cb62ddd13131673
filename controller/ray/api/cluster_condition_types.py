"""Types of a RayCluster's conditions. The first five are KubeRay's; clients know them by name."""

from __future__ import annotations

from typing import Final

HEAD_POD_READY: Final = "HeadPodReady"
PROVISIONED: Final = "RayClusterProvisioned"
REPLICA_FAILURE: Final = "ReplicaFailure"
SUSPENDING: Final = "RayClusterSuspending"
SUSPENDED: Final = "RayClusterSuspended"
DELETION_HELD: Final = "DeletionHeld"
PODS_UP_TO_DATE: Final = "PodsUpToDate"
OPTIONS_IN_EFFECT: Final = "OptionsInEffect"
UPGRADING: Final = "Upgrading"
GROUPS_UPGRADING: Final = "GroupsUpgrading"
CHILDREN_AS_SPECIFIED: Final = "ChildrenAsSpecified"

HEAD_POD_NOT_FOUND: Final = "HeadPodNotFound"
"""Reason of `HeadPodReady` while there is no head."""

RECREATING: Final = "Recreating"
"""Reason of `PodsUpToDate` while an edited specification replaces all pods.

The edit explains the reason, however long the replacement takes.
"""

UPGRADE_STRATEGY_NONE: Final = "UpgradeStrategyNone"
"""Reason of `PodsUpToDate` while nothing replaces outdated pods."""
