"""The objects whose events enqueue a RayService, and the indexes that find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, SERVICES
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.head.watches import RAY_PODS, head_keys
from controller.ray.service.observation import ACTIVE, PENDING
from controller.runtime.kind import Owned, References

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.objects import Pod, Service
    from controller.ray.api.rayservice import RayService

CLUSTER_INDEX: Final = "serving cluster"
"""Index of RayServices by the keys of the RayClusters that their status names."""


def cluster_keys(service: RayService) -> Sequence[str]:
    """Index by `CLUSTER_INDEX`; yield the clusters in the status."""
    status = mapping(service.status)
    names = (mapping(status.get(role)).get("rayClusterName") for role in (ACTIVE, PENDING))
    return tuple(
        f"{service.metadata.namespace}/{name}" for name in names if name and isinstance(name, str)
    )


def pod_keys(pod: Pod) -> Sequence[str]:
    """Return the RayCluster whose head this pod is."""
    return head_keys(pod)


def origin_keys(service: Service) -> Sequence[str]:
    """Return the RayService for which a service was created; its cluster may own it."""
    found = service.metadata.labels or {}
    if found.get(labels.ORIGIN_KIND) != RAYSERVICES.kind or labels.ORIGIN_NAME not in found:
        return ()
    return (f"{service.metadata.namespace}/{found[labels.ORIGIN_NAME]}",)


WATCHES: Final[tuple[Owned[Any], ...]] = (
    Owned(RAYCLUSTERS),
    Owned(
        RAY_PODS.resource,
        label_selector=RAY_PODS.label_selector,
        indexes=RAY_PODS.indexes,
        references=References(CLUSTER_INDEX, cluster_keys, pod_keys),
    ),
    Owned(SERVICES, also_enqueues=origin_keys),
    Owned(GATEWAYS, optional=True),
    Owned(HTTP_ROUTES, optional=True),
)
