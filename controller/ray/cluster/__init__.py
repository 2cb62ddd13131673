"""The RayCluster controller: what a cluster should be made of, as pure functions."""

from __future__ import annotations

from controller.ray.cluster.kind import RayClusterKind
from controller.ray.cluster.settings import ClusterSettings
from controller.ray.cluster.status.metrics import ClusterCollector

__all__ = ["ClusterCollector", "ClusterSettings", "RayClusterKind"]
