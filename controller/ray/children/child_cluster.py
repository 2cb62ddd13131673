"""RayClusters that RayJobs and RayServices create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.names import short_child_name
from controller.apimachinery.ownership import owner_reference
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.children.inheritance import inherited_annotations

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from controller.kube.objects import ObjectMeta
    from controller.kube.resources import Resource
    from controller.runtime.kind import CacheReader

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

    Args:
        kind: kind of the owner.
        owner: metadata of the owner.
        name: name of the cluster.
        spec: specification of the cluster; it becomes part of the result.
        own_labels: labels beside the owner's and those that name the owner.
        own_annotations: annotations beside the owner's.
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

    Args:
        owner: metadata of the owner.
        used: names that the owner has used.
        reads: the caches.
    """
    moment = owner.resource_version
    while True:
        name = child_cluster_name(owner, moment)
        if name not in used and reads.get(RAYCLUSTERS, f"{owner.namespace}/{name}") is None:
            return moment
        moment += "'"
