"""The `ray.io` kinds: typed views, their CustomResourceDefinitions and their validation."""

from __future__ import annotations

from controller.apimachinery.problem import Problem
from controller.apimachinery.quantity import InvalidQuantity, Quantity, parse_quantity
from controller.ray.api.definitions.crds import custom_resource_definitions
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.raycluster import RAYCLUSTERS, ClusterSpec, RayCluster, WorkerGroup
from controller.ray.api.rayjob import RAYJOBS, JobSpec, RayJob, SubmissionMode
from controller.ray.api.validation.cluster import validate_cluster

__all__ = [
    "RAYCLUSTERS",
    "RAYJOBS",
    "ClusterSpec",
    "FeatureGates",
    "InvalidQuantity",
    "JobSpec",
    "Problem",
    "Quantity",
    "RayCluster",
    "RayJob",
    "SubmissionMode",
    "WorkerGroup",
    "custom_resource_definitions",
    "parse_quantity",
    "validate_cluster",
]
