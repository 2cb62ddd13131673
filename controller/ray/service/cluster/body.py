"""Builds the RayCluster of a RayService."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.children.child_cluster import child_cluster
from controller.ray.children.inheritance import inherited_stamp
from controller.ray.children.redis_namespace import separate_redis

if TYPE_CHECKING:
    from controller.ray.api.rayservice import RayService
    from controller.ray.service.observation import ServiceGoal

Body = dict[str, Any]


def cluster_body(service: RayService, goal: ServiceGoal, name: str, *, from_least: bool) -> Body:
    """Return the RayCluster to create.

    Args:
        service: the RayService that will own it.
        goal: the user's goal.
        name: name of the cluster.
        from_least: whether the groups begin with their minimum of replicas and grow with the
            capacity.
    """
    spec = copy.deepcopy(goal.spec.ray_cluster_config)
    if from_least:
        for group in spec.get("workerGroupSpecs", ()):
            group.pop("replicas", None)
    separated = separate_redis(spec, service.metadata.annotations or {}, name)
    return child_cluster(
        RAYSERVICES,
        service.metadata,
        name,
        spec,
        own_annotations={
            **goal.annotations,
            **goal.stamps,
            **separated,
            **inherited_stamp(service.metadata),
        },
    )
