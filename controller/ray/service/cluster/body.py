"""The RayCluster of a RayService: as it is created, and what an edit changes in place."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.ray.api import labels
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.children.child_cluster import child_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.ray.api.raycluster import RayCluster
    from controller.ray.api.rayservice import RayService
    from controller.ray.service.observation import Goal

Body = dict[str, Any]

STORAGE_NAMESPACE_VARIABLE: Final = "RAY_external_storage_namespace"
"""Variable of the head that names its Redis namespace, whatever the options say."""

_BOUNDS: Final = ("minReplicas", "maxReplicas")
_REPLICAS: Final = ("replicas",)
_GROUPS: Final = "/spec/workerGroupSpecs"


def cluster_body(service: RayService, goal: Goal, name: str, *, from_least: bool) -> Body:
    """The RayCluster to create.

    Args:
        service: the RayService that will own it.
        goal: what the user wants.
        name: of the cluster.
        from_least: whether the groups begin with their least replicas and grow with the capacity.
    """
    spec = copy.deepcopy(goal.spec.ray_cluster_config)
    if from_least:
        for group in spec.get("workerGroupSpecs", ()):
            group.pop("replicas", None)
    separated = _separate_redis(spec, service.metadata.annotations or {}, name)
    return child_cluster(
        RAYSERVICES,
        service.metadata,
        name,
        spec,
        own_annotations={**goal.annotations, **goal.stamps, **separated},
    )


def _separate_redis(spec: Body, annotations: Mapping[str, str], cluster: str) -> dict[str, str]:
    """Give the cluster a Redis namespace of its own: two heads in one would destroy each other.

    Without a namespace chosen by the user it is the cluster's uid. One that the user chose, in the
    options, in a variable of the head or in an annotation, is followed by the cluster's name; the
    annotation is returned.
    """
    options = mapping(spec.get("gcsFaultToleranceOptions"))
    if chosen := options.get("externalStorageNamespace"):
        spec["gcsFaultToleranceOptions"] = {
            **options,
            "externalStorageNamespace": f"{chosen}-{cluster}",
        }
    variables = dig(spec, "headGroupSpec", "template", "spec", "containers", 0, "env")
    for variable in cast("list[Body]", variables or []):
        if variable.get("name") == STORAGE_NAMESPACE_VARIABLE and variable.get("value"):
            variable["value"] += f"-{cluster}"
    by_annotation = annotations.get(labels.EXTERNAL_STORAGE_NAMESPACE)
    return (
        {labels.EXTERNAL_STORAGE_NAMESPACE: f"{by_annotation}-{cluster}"} if by_annotation else {}
    )


def in_place_operations(cluster: RayCluster, wanted: Mapping[str, Any]) -> tuple[Body, ...]:
    """The JSON patch that brings an existing cluster to what may change in place; may be empty.

    Bounds of replicas and, without autoscaling, the replicas themselves follow the RayService;
    groups that were added at the end are appended. What the autoscaler decides is never written.
    """
    spec = mapping(cluster.spec)
    operations = tuple(_group_operations(spec, wanted))
    if not operations:
        return ()
    revision = cluster.metadata.resource_version
    test: Body = {"op": "test", "path": "/metadata/resourceVersion", "value": revision}
    return (test, *operations)


def _group_operations(spec: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Body]:
    present: list[Any] = spec.get("workerGroupSpecs") or []
    goal: list[Any] = wanted.get("workerGroupSpecs") or []
    fields = _BOUNDS if spec.get("enableInTreeAutoscaling") else (*_BOUNDS, *_REPLICAS)
    for position, (now, then) in enumerate(zip(present, goal, strict=False)):
        if mapping(now).get("groupName") != mapping(then).get("groupName"):
            return
        yield from _field_operations(position, mapping(now), mapping(then), fields)
    for group in goal[len(present) :]:
        if present:
            yield {"op": "add", "path": f"{_GROUPS}/-", "value": group}
    if goal and not present:
        yield {"op": "add", "path": _GROUPS, "value": goal}


def _field_operations(
    position: int, now: Mapping[str, Any], then: Mapping[str, Any], fields: tuple[str, ...]
) -> Iterator[Body]:
    for field in fields:
        if then.get(field) == now.get(field):
            continue
        path = f"{_GROUPS}/{position}/{field}"
        if then.get(field) is None:
            yield {"op": "remove", "path": path}
        else:
            yield {"op": "add", "path": path, "value": then[field]}
