"""Suspension: all pods are deleted, and a live list confirms it before the status says so.

`Suspending` is stored before the first pod is deleted and is carried through whatever the
specification then says. Only an explicit `suspend: false` ends `Suspended` (behaviour 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import is_true
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.cluster_condition_types import SUSPENDED
from controller.ray.cluster.pods.writes import delete_pod, scope_of
from controller.runtime.plan import LiveList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.raycluster import RayCluster
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.runtime.plan import Write


def every_pod(cluster: RayCluster) -> LiveList:
    """Return a live list of all pods with the cluster's label, even if no informer selects them."""
    meta = cluster.metadata
    return LiveList(PODS, meta.namespace, f"{labels.CLUSTER}={meta.name}")


def delete_all_pods(seen: ClusterObservation) -> Iterator[Write]:
    """Delete all pods of this cluster, each by its uid."""
    for pod in seen.all_pods:
        if not pod.metadata.terminating and scope_of(pod) not in seen.pending_scopes:
            yield delete_pod(seen, pod, what="Pod", reason="the cluster is being suspended")


def delete_latecomers(seen: ClusterObservation, desired: DesiredCluster) -> Iterator[Write]:
    """Delete pods of a suspended cluster whose creates were in flight when it was suspended."""
    if is_true(seen.conditions, SUSPENDED) and desired.spec.suspend is not False:
        yield from delete_all_pods(seen)
