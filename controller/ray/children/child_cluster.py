"""RayClusters that RayJobs and RayServices create."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import chain
from typing import Any, Final, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.metadata import owner_reference, short_child_name
from controller.kube.objects import ObjectMeta
from controller.kube.resources import Resource
from controller.ray.api import labels
from controller.ray.api.names import users_metadata
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.pods.hashes import changed_fields, field_digests
from controller.runtime.kind import CacheReader

# The metadata that children inherit from the object that they are created for.

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation of `kubectl apply`; copied to a child it would describe the wrong object."""


def inherited_stamp(owner: ObjectMeta) -> dict[str, str]:
    """Return the annotation that records what a child has inherited."""
    return {labels.INHERITED: field_digests(_inheritable(owner))}


def inherited_changes(owner: ObjectMeta, child: ObjectMeta) -> dict[str, dict[str, str | None]]:
    """Return the merge patch of a child's metadata for labels and annotations that were edited.

    Only what has changed on the owner is written, so that nothing is taken back that somebody else
    has changed on the child. Instructions to the operator (`ray.io/...`) are read when a child is
    created, and change nothing in one that runs.
    """
    present = _inheritable(owner)
    wanted = field_digests(present)
    recorded = (child.annotations or {}).get(labels.INHERITED)
    if recorded == wanted:
        return {}
    patch: dict[str, dict[str, str | None]] = {"annotations": {labels.INHERITED: wanted}}
    for name in sorted(changed_fields(recorded, present)):
        where, _, key = name.partition(":")
        patch.setdefault(where, {})[key] = present.get(name)
    return patch


def _inheritable(owner: ObjectMeta) -> dict[str, str]:
    found = {
        **{f"labels:{key}": value for key, value in (owner.labels or {}).items()},
        **{
            f"annotations:{key}": value
            for key, value in inherited_annotations(owner.annotations).items()
        },
    }
    return {name: found[name] for name in found if ":ray.io/" not in name}


def inherited_annotations(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Return the annotations that are neither kubectl's record nor Manta's own.

    A field of the cluster that an annotation replaces is the user's.
    """
    given = annotations or {}
    kept = {key: given[key] for key in (labels.DISRUPTION_BUDGETS,) if key in given}
    own = users_metadata(given) | kept
    return {key: value for key, value in own.items() if key != _LAST_APPLIED}


Body = dict[str, Any]


def child_cluster(
    kind: Resource[Any],
    owner: ObjectMeta,
    name: str,
    spec: Body,
    *,
    own_labels: Mapping[str, str] | None = None,
    own_annotations: Mapping[str, str] | None = None,
) -> Body:
    """Return the RayCluster to create, with its owner's labels and annotations, as in KubeRay.

    The specification becomes part of the result. `own_labels` and `own_annotations` are added.
    """
    origin = {labels.ORIGIN_NAME: owner.name, labels.ORIGIN_KIND: kind.kind}
    annotations = inherited_annotations(owner.annotations) | dict(own_annotations or {})
    return {
        "apiVersion": RAYCLUSTERS.api_version,
        "kind": RAYCLUSTERS.kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": (owner.labels or {}) | origin | dict(own_labels or {}),
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_reference(kind, owner)],
        },
        "spec": spec,
    }


def child_cluster_name(owner: ObjectMeta, moment: str) -> str:
    """Return the name of a cluster that is chosen at a revision of its owner."""
    return short_child_name(owner, "cluster", moment)


def unused_moment(owner: ObjectMeta, used: Container[Any], reads: CacheReader) -> str:
    """Return the present revision, varied until `child_cluster_name` gives a free name.

    Choosing the name is a write to the owner, so no later choice is made at this revision.
    """
    moment = owner.resource_version
    while True:
        name = child_cluster_name(owner, moment)
        if name not in used and reads.get(RAYCLUSTERS, f"{owner.namespace}/{name}") is None:
            return moment
        moment += "'"


# Gives each cluster a Redis namespace: two heads that share one destroy each other's state.

STORAGE_NAMESPACE_VARIABLE: Final = "RAY_external_storage_namespace"
"""Variable of the head that names its Redis namespace, whatever the options say."""

_CHOSEN: Final = "MANTA_CHOSEN_STORAGE_NAMESPACE"
"""Variable of the head with a namespace from a Secret or the like, which the kubelet inserts."""


def separate_redis(spec: Body, annotations: Mapping[str, str], cluster: str) -> dict[str, str]:
    """Change the specification so that no other cluster has its Redis namespace.

    Without a namespace chosen by the user it is the cluster's uid. The cluster's name is appended
    to one that the user chose in the options, a variable of the head or an annotation, and to one
    from a Secret or a ConfigMap, which only the kubelet reads.

    Args:
        spec: specification of the cluster; changed in place.
        annotations: those that the user gave for it.
        cluster: name of the cluster.

    Returns:
        The annotation that it needs, if the user's names a namespace.
    """
    options = mapping(spec.get("gcsFaultToleranceOptions"))
    if chosen := options.get("externalStorageNamespace"):
        spec["gcsFaultToleranceOptions"] = {
            **options,
            "externalStorageNamespace": f"{chosen}-{cluster}",
        }
    variables = dig(spec, "headGroupSpec", "template", "spec", "containers", 0, "env")
    if variables:
        variables[:] = chain.from_iterable(
            _separated(variable, cluster) for variable in cast("list[Body]", variables)
        )
    by_annotation = annotations.get(labels.EXTERNAL_STORAGE_NAMESPACE)
    return (
        {labels.EXTERNAL_STORAGE_NAMESPACE: f"{by_annotation}-{cluster}"} if by_annotation else {}
    )


def _separated(variable: Body, cluster: str) -> tuple[Body, ...]:
    if variable.get("name") != STORAGE_NAMESPACE_VARIABLE:
        return (variable,)
    if variable.get("value"):
        return (variable | {"value": f"{variable['value']}-{cluster}"},)
    if variable.get("valueFrom"):
        chosen = variable | {"name": _CHOSEN}
        return chosen, {"name": STORAGE_NAMESPACE_VARIABLE, "value": f"$({_CHOSEN})-{cluster}"}
    return (variable,)


# Applies an edit to a cluster that was created for another object, without replacing it.

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
    for name in fields:
        if then.get(name) == now.get(name):
            continue
        path = f"{_GROUPS}/{position}/{name}"
        if then.get(name) is None:
            yield {"op": "remove", "path": path}
        else:
            yield {"op": "add", "path": path, "value": then[name]}
