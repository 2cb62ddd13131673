"""Decides when the head of a cluster is created and deleted, and which of several heads is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import is_true
from controller.ray.api import labels
from controller.ray.api.cluster_condition_types import PROVISIONED
from controller.ray.cluster.pods.healing import unhealthy_reason
from controller.ray.cluster.pods.losses import is_replacement_held
from controller.ray.cluster.pods.writes import create_pod, delete_pod
from controller.ray.head.endpoint import chosen_head
from controller.ray.head.identity import HEAD_SCOPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import Pod
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.ray.cluster.workers.missing_pods import MissingPods
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
