"""The RayCluster controller: what a cluster should be made of, as pure functions."""

from __future__ import annotations

from controller.ray.cluster.kind import RayClusterKind
from controller.ray.cluster.status.metrics import ClusterCollector
from controller.ray.settings import ClusterSettings

__all__ = ["ClusterCollector", "ClusterSettings", "RayClusterKind"]
