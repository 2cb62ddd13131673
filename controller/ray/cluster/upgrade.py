"""Upgrades of a cluster: the strategy, what is outdated, and recreation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.api.names import UPGRADE_STRATEGY_NONE
from controller.ray.api.pod_state import is_head
from controller.ray.api.raycluster import ClusterSpec
from controller.ray.api.upgrade_strategy import ROLLING_UPDATE
from controller.ray.cluster.head_and_workers import live_head
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.pods import (
    delete_pod,
    patch_pod,
    pods_and_hashes,
    template_hash,
)
from controller.ray.pods.environment import Role
from controller.ray.pods.hashes import changed_fields, is_outdated
from controller.runtime.plan import Write

# What becomes of outdated pods, by the strategy; validation refuses unknown ones.

_RECREATE: Final = "Recreate"
_KEPT: Final = (
    UPGRADE_STRATEGY_NONE,
    "upgradeStrategy does not replace running pods, so the change reaches new ones only",
)
_OUTLOOKS: Final[dict[str | None, tuple[str, str]]] = {
    _RECREATE: (
        "UpgradeStrategyRecreate",
        "pods are replaced unless only tolerations or scheduling gates have changed",
    ),
    ROLLING_UPDATE: (
        "UpgradeStrategyRollingUpdate",
        "the condition Upgrading says how they are replaced",
    ),
}


def outlook_of(spec: ClusterSpec) -> tuple[str, str]:
    """Return the reason of `PodsUpToDate` while pods are outdated, and what becomes of them."""
    return _OUTLOOKS.get(spec.upgrade_strategy.type, _KEPT)


# The options of the cluster that have changed since its pods were made.


def pods_with_former_options(seen: ClusterObservation) -> tuple[list[str], list[str]]:
    """Find the pods that run with former options: their names, and the fields that changed."""
    names: list[str] = []
    fields: set[str] = set()
    of_role: tuple[tuple[Role, Sequence[Pod]], ...] = (
        ("head", seen.heads),
        ("worker", seen.all_workers),
    )
    for role, pods in of_role:
        present = seen.desired.builder.options(role)
        stamps = {(pod.metadata.annotations or {}).get(labels.CLUSTER_OPTIONS) for pod in pods}
        changed = {stamp: changed_fields(stamp, present) for stamp in stamps}
        for pod in pods:
            found = changed[(pod.metadata.annotations or {}).get(labels.CLUSTER_OPTIONS)]
            if found and not pod.metadata.terminating:
                names.append(pod.metadata.name)
                fields |= found
    return sorted(names), sorted(fields)


# Finds the pods that were created from an older template than the present one.


def outdated_pods(seen: ClusterObservation) -> list[str]:
    """Return the names of the outdated pods, sorted, without those of removed groups."""
    pods = pods_and_hashes(seen)
    return sorted(p.metadata.name for p, wanted in pods if is_outdated(template_hash(p), wanted))


# `upgradeStrategy: Recreate`: a changed specification replaces all pods at once.
#
# The head carries the hash of the specification from which it was created, and is deleted last: as
# long as it exists, an interrupted replacement continues. A hash of another
# operator, or of another algorithm, cannot be compared: such a head only gets a new hash, so that
# handing a cluster over in either direction replaces no pod.

_REASON: Final = "the specification has changed and upgradeStrategy is Recreate"


def is_recreation_due(seen: ClusterObservation) -> bool:
    """Return whether the live head was created from another specification.

    Without a live head there is nothing to compare: the next head is up to date anyway.
    """
    head = live_head(seen) if seen.desired.spec.upgrade_strategy.type == _RECREATE else None
    if head is None:
        return False
    stamped, wanted = head.metadata.annotations or {}, seen.desired.builder.head_stamps
    same_operator = stamped.get(labels.KUBERAY_VERSION) == wanted[labels.KUBERAY_VERSION]
    return same_operator and is_outdated(
        stamped.get(labels.RECREATE_HASH), wanted[labels.RECREATE_HASH]
    )


def stamp_head(seen: ClusterObservation) -> Iterator[Write]:
    """Replace a hash of the head that cannot be compared."""
    head = live_head(seen) if seen.desired.spec.upgrade_strategy.type == _RECREATE else None
    if head is None or is_recreation_due(seen):
        return
    present, wanted = head.metadata.annotations or {}, seen.desired.builder.head_stamps
    if any(present.get(key) != value for key, value in wanted.items()):
        yield from patch_pod(seen, head, wanted)


def delete_everything(seen: ClusterObservation) -> tuple[list[Write], list[Write]]:
    """Return deletes of all workers, then of the heads once no lost create can add a worker."""
    pods = seen.live_pods
    workers: list[Write] = [
        delete_pod(seen, pod, what="WorkerPod", reason=_REASON) for pod in pods if not is_head(pod)
    ]
    heads: list[Write] = [
        delete_pod(seen, pod, what="HeadPod", reason=_REASON) for pod in pods if is_head(pod)
    ]
    return [*seen.settled(workers)], heads if not seen.pending_scopes else []
