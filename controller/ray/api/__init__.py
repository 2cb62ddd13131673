"""The `ray.io` kinds: typed views, their CustomResourceDefinitions and their validation."""

from __future__ import annotations

from controller.ray.api.definitions import custom_resource_definitions
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.raycluster import RAYCLUSTERS, ClusterSpec, RayCluster
from controller.ray.api.rayjob import RAYJOBS, JobSpec, RayJob, SubmissionMode
from controller.ray.api.rayservice import RAYSERVICES, RayService
from controller.ray.api.validation.cluster import validate_cluster

__all__ = [
    "RAYCLUSTERS",
    "RAYJOBS",
    "RAYSERVICES",
    "ClusterSpec",
    "FeatureGates",
    "JobSpec",
    "RayCluster",
    "RayJob",
    "RayService",
    "SubmissionMode",
    "custom_resource_definitions",
    "validate_cluster",
]
