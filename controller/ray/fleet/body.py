"""The RayCluster of one copy: its creation, and edits in place."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.ray.api import labels
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.children.child_cluster import child_cluster
from controller.ray.children.in_place import BOUNDS, in_place_operations
from controller.ray.children.redis_namespace import separate_redis
from controller.ray.fleet.template import copy_name

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta
    from controller.ray.api.raycluster import RayCluster
    from controller.ray.fleet.observation import FleetGoal

Body = dict[str, Any]

_IN_PLACE: Final = (*BOUNDS, "suspend")


def copy_body(fleet: ObjectMeta, goal: FleetGoal, index: int) -> Body:
    """Return the RayCluster to create for this index; labels and annotations are the template's."""
    name, template = copy_name(fleet, index, goal.template_hash), goal.spec.template
    spec = copy.deepcopy(template.spec)
    separated = separate_redis(spec, template.metadata.annotations, name)
    owner = msgspec.structs.replace(
        fleet, labels=template.metadata.labels, annotations=template.metadata.annotations
    )
    made_from = {labels.MADE_FROM: str(goal.template_hash)}
    own = {**made_from, **place_of(goal, index), **separated}
    return child_cluster(RAYCLUSTERFLEETS, owner, name, spec, own_annotations=own)


def place_of(goal: FleetGoal, index: int) -> dict[str, str]:
    """Return the annotations with a copy's index, which count for no hash."""
    return {labels.CLUSTER_INDEX: str(index), labels.CLUSTER_COUNT: str(goal.spec.replicas)}


def changes_in_place(cluster: RayCluster, goal: FleetGoal) -> tuple[Body, ...]:
    """Return the JSON patch that brings an up-to-date copy's worker groups to what is wanted."""
    return in_place_operations(cluster, goal.spec.template.spec, _IN_PLACE)
