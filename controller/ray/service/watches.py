"""The objects whose events enqueue a RayService, and the indexes that find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping
from controller.kube.resources import SERVICES
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.head.watches import RAY_PODS, head_keys
from controller.ray.service.observation import ACTIVE, PENDING
from controller.runtime.reconcile.kind import Owned, References

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.objects import Pod
    from controller.ray.api.rayservice import RayService

CLUSTER_INDEX: Final = "serving cluster"
"""Index of RayServices by the keys of the RayClusters that their status names."""


def cluster_keys(service: RayService) -> Sequence[str]:
    """Index function of `CLUSTER_INDEX`: the clusters in the status."""
    status = mapping(service.status)
    names = (mapping(status.get(role)).get("rayClusterName") for role in (ACTIVE, PENDING))
    return tuple(
        f"{service.metadata.namespace}/{name}" for name in names if name and isinstance(name, str)
    )


def pod_keys(pod: Pod) -> Sequence[str]:
    """The RayCluster whose head this pod is."""
    return head_keys(pod)


WATCHES: Final[tuple[Owned[Any], ...]] = (
    Owned(RAYCLUSTERS),
    Owned(
        RAY_PODS.resource,
        label_selector=RAY_PODS.label_selector,
        indexes=RAY_PODS.indexes,
        references=References(CLUSTER_INDEX, cluster_keys, pod_keys),
    ),
    Owned(SERVICES),
)
