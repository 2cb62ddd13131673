"""The objects whose events enqueue a RayJob, and the indexes that find them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping
from controller.kube.resources import JOBS, PODS, SERVICES
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.head.watches import OUR_JOBS, RAY_PODS, head_keys
from controller.runtime.kind import Owned, References

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.objects import KubeObject, Pod
    from controller.ray.api.rayjob import RayJob

SUBMITTER_PODS: Final = "submitter of"
"""Index of submitter pods by the key of their RayJob."""

CLUSTER_INDEX: Final = "cluster"
"""Index of RayJobs by the key of the RayCluster that their attempt runs on.

Owner references do not suffice: the RayJob does not own a selected cluster, and a head pod is owned
by its cluster.
"""


def submitter_keys(pod: Pod) -> Sequence[str]:
    """Index by `SUBMITTER_PODS`; yield the key of the pod's RayJob."""
    found = pod.metadata.labels or {}
    job = found.get(labels.ORIGIN_NAME)
    is_submitter = found.get(labels.NODE_TYPE) == labels.SUBMITTER
    return (f"{pod.metadata.namespace}/{job}",) if job and is_submitter else ()


def cluster_keys(job: RayJob) -> Sequence[str]:
    """Index by `CLUSTER_INDEX`; yield the key of the cluster in the status."""
    name = mapping(job.status).get("rayClusterName")
    return (f"{job.metadata.namespace}/{name}",) if name and isinstance(name, str) else ()


def _own_key(obj: KubeObject) -> Sequence[str]:
    return (obj.metadata.key,)


WATCHES: Final[tuple[Owned[Any], ...]] = (
    Owned(RAYCLUSTERS, references=References(CLUSTER_INDEX, cluster_keys, _own_key)),
    Owned(
        PODS,
        label_selector=RAY_PODS.label_selector,
        indexes={**RAY_PODS.indexes, SUBMITTER_PODS: submitter_keys},
        also_enqueues=submitter_keys,
        references=References(CLUSTER_INDEX, cluster_keys, head_keys),
    ),
    Owned(SERVICES),
    Owned(JOBS, label_selector=OUR_JOBS),
)
