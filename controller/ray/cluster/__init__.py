"""The RayCluster controller: pure functions that decide what a cluster should consist of."""

from __future__ import annotations

from controller.ray.cluster.kind import RayClusterKind
from controller.ray.cluster.metrics import ClusterCollector
from controller.ray.settings import ClusterSettings

__all__ = ["ClusterCollector", "ClusterSettings", "RayClusterKind"]
