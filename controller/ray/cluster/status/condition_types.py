"""Types of a RayCluster's conditions. The first five are KubeRay's; clients know them by name."""

from __future__ import annotations

from typing import Final

HEAD_POD_READY: Final = "HeadPodReady"
PROVISIONED: Final = "RayClusterProvisioned"
REPLICA_FAILURE: Final = "ReplicaFailure"
SUSPENDING: Final = "RayClusterSuspending"
SUSPENDED: Final = "RayClusterSuspended"
FEATURES_SUPPORTED: Final = "FeaturesSupported"
PODS_UP_TO_DATE: Final = "PodsUpToDate"
CHILDREN_AS_SPECIFIED: Final = "ChildrenAsSpecified"
