"""The watches that all Ray kinds share: one selector and one set of indexes for each resource.

Informers are shared, so all kinds must use the same selector for a resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.pod_state import is_head
from controller.runtime.kind import Owned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.objects import KubeObject, Pod

HEAD_INDEX: Final = "head"
"""Index of head pods of any owner by the `namespace/cluster` of their labels."""


def head_keys(pod: Pod) -> Sequence[str]:
    """Index by `HEAD_INDEX`; yield the RayCluster that an event of the pod enqueues."""
    cluster = (pod.metadata.labels or {}).get(labels.CLUSTER)
    return (f"{pod.metadata.namespace}/{cluster}",) if cluster and is_head(pod) else ()


def named_cluster(obj: KubeObject) -> Sequence[str]:
    """Return the RayCluster that a label names; it may wait until another object is gone."""
    meta = obj.metadata
    cluster = (meta.labels or {}).get(labels.CLUSTER)
    return (f"{meta.namespace}/{cluster}",) if cluster else ()


def _head_or_cleanup_keys(pod: Pod) -> Sequence[str]:
    """Yield the RayCluster that a head or a pod of a cleanup Job enqueues."""
    role = (pod.metadata.labels or {}).get(labels.NODE_TYPE)
    return named_cluster(pod) if role == labels.REDIS_CLEANUP else head_keys(pod)


_ROLES: Final = (labels.HEAD, labels.WORKER, labels.SUBMITTER, labels.REDIS_CLEANUP)

RAY_PODS: Final = Owned(
    PODS,
    label_selector=f"{labels.NODE_TYPE} in ({','.join(_ROLES)})",
    indexes={HEAD_INDEX: head_keys},
    also_enqueues=_head_or_cleanup_keys,
)


OUR_JOBS: Final = f"{labels.CREATED_BY}={labels.CREATED_BY_VALUE}"
"""Selector of the batch Jobs of all Ray kinds: Redis cleanup and submitters."""
