"""Applies an edit to a cluster that was created for another object, without replacing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.custom_object import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.ray.api.raycluster import RayCluster

Body = dict[str, Any]

BOUNDS: Final = ("minReplicas", "maxReplicas")
_REPLICAS: Final = ("replicas",)
_GROUPS: Final = "/spec/workerGroupSpecs"


def in_place_operations(
    cluster: RayCluster, wanted: Mapping[str, Any], fields: tuple[str, ...] = BOUNDS
) -> tuple[Body, ...]:
    """Return the JSON patch for what may change in an existing cluster; may be empty.

    Without autoscaling the patch sets the replicas too. It appends groups that were added, and
    never writes what the autoscaler decides.

    Args:
        cluster: the existing cluster.
        wanted: the specification that its owner asks for, with all groups of the cluster.
        fields: fields of worker groups that may change in place.
    """
    spec = mapping(cluster.spec)
    operations = tuple(_group_operations(spec, wanted, fields))
    if not operations:
        return ()
    revision = cluster.metadata.resource_version
    test: Body = {"op": "test", "path": "/metadata/resourceVersion", "value": revision}
    return (test, *operations)


def _group_operations(
    spec: Mapping[str, Any], wanted: Mapping[str, Any], fields: tuple[str, ...]
) -> Iterator[Body]:
    present = _items(spec.get("workerGroupSpecs"))
    goal: list[Any] = wanted.get("workerGroupSpecs") or []
    fields = fields if spec.get("enableInTreeAutoscaling") else (*fields, *_REPLICAS)
    names: list[Any] = [mapping(now).get("groupName") for now in present]
    positions = {name: place for place, name in enumerate(names) if isinstance(name, str)}
    for then in map(mapping, goal):
        position = positions.get(then.get("groupName", ""))
        if position is not None:
            yield from _field_operations(position, mapping(present[position]), then, fields)
        elif present:
            yield {"op": "add", "path": f"{_GROUPS}/-", "value": then}
    if goal and not present:
        yield {"op": "add", "path": _GROUPS, "value": goal}


def _items(groups: Any) -> list[Any]:
    """Return the groups of a specification that was not validated."""
    return cast("list[Any]", groups) if isinstance(groups, list) else []


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
