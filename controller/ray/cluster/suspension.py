"""Suspension: all pods go, and it is certain that none is left before that is said.

`Suspending` is stored before the first pod goes and is carried through whatever the specification
says meanwhile; only an explicit `suspend: false` leads out of `Suspended` (behaviour 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import is_true
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.cluster.pod_writes import delete_pod, scope_of
from controller.ray.cluster.status.condition_types import SUSPENDED
from controller.runtime.reconcile.plan import LiveList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.raycluster import RayCluster
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.runtime.reconcile.plan import Write


def every_pod(cluster: RayCluster) -> LiveList:
    """All pods with the cluster's label, also those that have left the informer's selector."""
    meta = cluster.metadata
    return LiveList(PODS, meta.namespace, f"{labels.CLUSTER}={meta.name}")


def delete_all_pods(seen: ClusterObservation) -> Iterator[Write]:
    """All pods of this cluster, each by its uid."""
    for pod in seen.all_pods:
        if not pod.metadata.terminating and scope_of(pod) not in seen.pending_scopes:
            yield delete_pod(seen, pod, what="Pod", reason="the cluster is being suspended")


def delete_latecomers(seen: ClusterObservation, design: DesiredCluster) -> Iterator[Write]:
    """Pods of a suspended cluster: creates that were still under way when it was suspended."""
    if is_true(seen.conditions, SUSPENDED) and design.spec.suspend is not False:
        yield from delete_all_pods(seen)
