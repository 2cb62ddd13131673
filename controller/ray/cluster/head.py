"""Decides when the head of a cluster is created and deleted, and which of several heads is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import is_true
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.names import PROVISIONED, SUSPENDED
from controller.ray.cluster.pods import (
    create_pod,
    delete_pod,
    is_replacement_held,
    scope_of,
    unhealthy_reason,
)
from controller.ray.head.endpoint import HEAD_SCOPE, chosen_head
from controller.runtime.plan import LiveList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import Pod
    from controller.ray.api.raycluster import RayCluster
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.ray.cluster.workers import MissingPods
    from controller.runtime.plan import Write


def live_head(seen: ClusterObservation) -> Pod | None:
    """Return the head of the cluster that is not terminating, ended or not."""
    return chosen_head(pod for pod in seen.heads if not pod.metadata.terminating)


def create_head(
    seen: ClusterObservation, desired: DesiredCluster, missing: MissingPods
) -> Iterator[Write]:
    """Create a head only if there is none, not even a terminating one or another owner's."""
    if seen.heads or seen.foreign_heads or HEAD_SCOPE in seen.pending_scopes:
        return
    if is_replacement_held(seen, HEAD_SCOPE):
        return
    (head,) = missing[HEAD_SCOPE]
    yield create_pod(seen, desired.builder.head(head.name), scope=HEAD_SCOPE, what="HeadPod")


def delete_heads(seen: ClusterObservation) -> Iterator[Write]:
    """Delete heads that have ended, and all heads but the one that `live_head` chooses.

    An ended head stays until it may be replaced, because it shows why it ended.
    """
    if HEAD_SCOPE in seen.pending_scopes:
        return
    kept = live_head(seen)
    for pod in seen.heads:
        if pod is kept and is_replacement_held(seen, HEAD_SCOPE):
            continue
        reason = unhealthy_reason(pod)
        if reason is None and pod is not kept:
            reason = "a cluster has one head"
        if reason is None and seen.rollout is not None and seen.rollout.replaces_head:
            reason = "it was created from an older template, and all workers are up to date"
        if reason is not None and not pod.metadata.terminating:
            yield delete_pod(seen, pod, what="HeadPod", reason=reason)


def must_not_restart(seen: ClusterObservation) -> bool:
    """Return whether a lost head is not replaced, because the driver ran in it."""
    annotations = seen.cluster.metadata.annotations or {}
    return (
        not seen.heads
        and annotations.get(labels.DISABLE_HEAD_RESTART) == "true"
        and is_true(seen.conditions, PROVISIONED)
    )


# Suspension: all pods are deleted, and a live list confirms it before the status says so.
#
# `Suspending` is stored before the first pod is deleted and is carried through whatever the
# specification then says. Only an explicit `suspend: false` ends `Suspended`.


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
