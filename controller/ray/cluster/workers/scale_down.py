"""Chooses the pods of a plain group to delete, and their order.

All functions compute on values. Terminating pods still count as existing, so nothing is replaced
before it is gone. The order of deletion never depends on the order in which a cache lists pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.ray.api import labels
from controller.ray.api.pod_state import is_ready
from controller.ray.cluster.observed.pod_to_delete import NAMED, SURPLUS, DeletionCause, PodToDelete
from controller.ray.cluster.pods.healing import unhealthy_reason
from controller.ray.pods.hashes.template_hash import is_outdated

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from controller.kube.objects import Pod
    from controller.ray.api.raycluster import WorkerGroup
    from controller.ray.pods.hashes.template_hash import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownRules:
    """The rules by which units of a group are deleted: pods, or replicas of several hosts.

    Attributes:
        wanted_hash: template hash that new pods carry.
        may_shrink: False while the autoscaler decides: then only named or broken units go.
        keep_ended: whether ended pods stay unless they are named or surplus.
        wanted: number of units, if it differs from that of the specification.
    """

    wanted_hash: Hash | None
    may_shrink: bool
    keep_ended: bool = False
    wanted: int | None = None


def pods_to_delete(
    group: WorkerGroup, pods: Sequence[Pod], rules: ScaleDownRules
) -> tuple[PodToDelete, ...]:
    """Return the pods of the group to delete now, in order; `pods` includes terminating ones."""
    most = group.desired_pods if rules.wanted is None else rules.wanted
    named = frozenset(group.scale_strategy.workers_to_delete)
    live = [pod for pod in pods if not pod.metadata.terminating]
    forced = [
        pod
        for pod in live
        if pod.metadata.name in named
        or (not rules.keep_ended and unhealthy_reason(pod) is not None)
    ]
    surplus = len(live) - most if rules.may_shrink or group.suspend else 0
    count = max(len(forced), surplus)
    if not count:
        return ()
    ordered = deletion_order(live, named=named, wanted_hash=rules.wanted_hash)
    return tuple(PodToDelete(pod, *_why(pod, named)) for pod in ordered[:count])


def deletion_order(
    pods: Iterable[Pod], *, named: Collection[str] = (), wanted_hash: Hash | None = None
) -> list[Pod]:
    """Order pods for deletion: by `deletion_rank`, then newest first, then by name."""
    ordered = sorted(pods, key=lambda pod: pod.metadata.name)
    ordered.sort(key=lambda pod: pod.metadata.creation_timestamp or "", reverse=True)
    ordered.sort(key=lambda pod: deletion_rank(pod, named, wanted_hash))
    return ordered


def deletion_rank(pod: Pod, named: Collection[str], wanted_hash: Hash | None) -> tuple[bool, ...]:
    """Return the rank of a pod in the order of deletion; the smallest is deleted first.

    The order: named in `workersToDelete`, failed, not scheduled, not ready, outdated template.
    """
    return (
        pod.metadata.name not in named,
        unhealthy_reason(pod) is None,
        bool(pod.spec.node_name),
        is_ready(pod),
        wanted_hash is None or not is_outdated(template_hash(pod), wanted_hash),
    )


def free_indices(pods: Iterable[Pod], count: int) -> list[int]:
    """Return the lowest replica indices that no pod has."""
    used = {(pod.metadata.labels or {}).get(labels.REPLICA_INDEX) for pod in pods}
    indices: list[int] = []
    candidate = 0
    while len(indices) < count:
        if str(candidate) not in used:
            indices.append(candidate)
        candidate += 1
    return indices


def template_hash(pod: Pod) -> str | None:
    """Return the hash with which the pod was created."""
    return (pod.metadata.annotations or {}).get(labels.TEMPLATE_HASH)


def _why(pod: Pod, named: Collection[str]) -> tuple[str, DeletionCause]:
    if pod.metadata.name in named:
        return NAMED, DeletionCause.NAMED
    defect = unhealthy_reason(pod)
    return (SURPLUS, DeletionCause.SURPLUS) if defect is None else (defect, DeletionCause.POD)
