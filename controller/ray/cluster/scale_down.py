"""Chooses the pods of a plain group to delete, and their order.

All functions compute on values. Terminating pods still count as existing, so nothing is replaced
before it is gone. The order of deletion never depends on the order in which a cache lists pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.apimachinery.names import suffix
from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.api.pod_state import is_ready
from controller.ray.api.raycluster import WorkerGroup
from controller.ray.cluster.observation import MultiHostReplica
from controller.ray.cluster.pods import template_hash, unhealthy_reason
from controller.ray.cluster.rollout import NAMED, SURPLUS, DeletionCause, PodToDelete
from controller.ray.pods.builder import ReplicaPosition
from controller.ray.pods.hashes import is_outdated


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownRules:
    """The rules by which units of a group are deleted: pods, or replicas of several hosts.

    Attributes:
        wanted_hash: template hash that new pods carry.
        may_shrink: False while the autoscaler decides: then only named or broken units go.
        keep_ended: whether ended pods stay unless they are named or surplus.
        wanted: number of units, if it differs from that of the specification.
    """

    wanted_hash: str | None
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
    pods: Iterable[Pod], *, named: Collection[str] = (), wanted_hash: str | None = None
) -> list[Pod]:
    """Order pods for deletion: by `deletion_rank`, then newest first, then by name."""
    ordered = sorted(pods, key=lambda pod: pod.metadata.name)
    ordered.sort(key=lambda pod: pod.metadata.creation_timestamp or "", reverse=True)
    ordered.sort(key=lambda pod: deletion_rank(pod, named, wanted_hash))
    return ordered


def deletion_rank(pod: Pod, named: Collection[str], wanted_hash: str | None) -> tuple[bool, ...]:
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


def _why(pod: Pod, named: Collection[str]) -> tuple[str, DeletionCause]:
    if pod.metadata.name in named:
        return NAMED, DeletionCause.NAMED
    defect = unhealthy_reason(pod)
    return (SURPLUS, DeletionCause.SURPLUS) if defect is None else (defect, DeletionCause.POD)


# Multi-host replicas ("slices"), which are created, repaired and deleted as one.
#
# The hosts of a replica compute together, so one without all of its hosts is worthless: it is
# deleted whole, and then replaced under a new name. A replica that is still being created looks the
# same. The difference is what this process remembers: hosts are created in the order of their
# indices, so a replica that has exactly the hosts created so far is completed. After a crash this
# memory is lost; an incomplete replica is then deleted, once, and never repaired in part.

_SUFFIX_LENGTH = 5
_LONGEST_LABEL = 63


def is_unfinished(each: MultiHostReplica, group: WorkerGroup, begun: Mapping[str, int]) -> bool:
    """Return whether the replica lacks only the hosts that this process has not created yet."""
    hosts = each.host_indices
    named = group.scale_strategy.workers_to_delete
    return (
        len(hosts) < group.hosts
        and len(hosts) == begun.get(each.name)
        and hosts == [str(number) for number in range(len(hosts))]
        and all(_defect(pod) is None and pod.metadata.name not in named for pod in each.pods)
    )


def replica_pods_to_delete(
    group: WorkerGroup,
    replicas: Sequence[MultiHostReplica],
    begun: Mapping[str, int],
    rules: ScaleDownRules,
) -> tuple[PodToDelete, ...]:
    """Return the pods of the replicas to delete now, replica by replica.

    Args:
        group: the group's specification.
        replicas: its replicas, including terminating ones.
        begun: replicas that this process is creating, with the number of hosts created.
        rules: the other rules of the deletion.
    """
    most = group.desired_replicas if rules.wanted is None else rules.wanted
    named = frozenset(group.scale_strategy.workers_to_delete)
    live = [each for each in replicas if each.live]
    begun = _still_wanted(group, replicas, begun, most)
    reasons = {id(each): _why_forced(each, group, begun, named) for each in live}
    forced = sum(reason is not None for reason in reasons.values())
    surplus = len(live) - most if rules.may_shrink or group.suspend else 0
    count = max(forced, surplus)
    ordered = sorted(live, key=lambda each: (each.name, each.pods[0].metadata.name))
    ordered.sort(key=_created, reverse=True)
    ordered.sort(
        key=lambda each: (
            reasons[id(each)] is None,
            min(deletion_rank(pod, named, rules.wanted_hash) for pod in each.live),
        )
    )
    found = [
        (position, PodToDelete(pod, *(reasons[id(each)] or (SURPLUS, DeletionCause.SURPLUS))))
        for position, each in enumerate(ordered[:count])
        for pod in each.live
    ]
    return tuple(
        each
        for position, each in found
        if position < surplus
        or not rules.keep_ended
        or each.cause is not DeletionCause.POD
        or unhealthy_reason(each.pod) is None
    )


def missing_hosts(
    group: WorkerGroup,
    replicas: Sequence[MultiHostReplica],
    begun: Mapping[str, int],
    *,
    owner_uid: str,
    revision: str,
    batch: int,
    owed: int = 0,
    wanted: int | None = None,
) -> list[ReplicaPosition]:
    """Return the positions of missing pods, first in replicas that are being created.

    A replica is begun only if the batch has room for all of it, or if it is the first: then it gets
    as many hosts as the batch has room for. `owed` replicas are not replaced yet.
    `wanted` is the number of replicas, if it is not that of the specification.
    """
    hosts = group.hosts
    most = group.desired_replicas if wanted is None else wanted
    begun = _still_wanted(group, replicas, begun, most)
    places: list[ReplicaPosition] = []
    for each in replicas:
        if is_unfinished(each, group, begun):
            index = int(each.index) if each.index.isdigit() else 0
            end = min(hosts, len(each.pods) + batch - len(places))
            places += (
                ReplicaPosition(index, each.name, host) for host in range(len(each.pods), end)
            )
    missing = max(0, most - len(replicas) - owed)
    room = max(batch - len(places), 0 if places else hosts)
    count = min(missing, room // hosts)
    taken = {each.name for each in replicas}
    indices = free_indices((pod for each in replicas for pod in each.pods), count)
    names = _names(group.group_name, taken, count, owner_uid=owner_uid, revision=revision)
    for index, name in zip(indices, names, strict=True):
        if hosts == 1:
            places.append(ReplicaPosition(index))
        else:
            places += (ReplicaPosition(index, name, host) for host in range(min(hosts, batch)))
    return places


def _names(
    group: str, taken: Collection[str], count: int, *, owner_uid: str, revision: str
) -> list[str]:
    """Return `<group>-<5 characters>`: the same observed state gives the same names."""
    prefix = group[: _LONGEST_LABEL - _SUFFIX_LENGTH - 1].rstrip("-._")
    names: list[str] = []
    position = 0
    while len(names) < count:
        ending = suffix(owner_uid, group, "slice", str(position), revision)[:_SUFFIX_LENGTH]
        name = f"{prefix}-{ending}"
        position += 1
        if name not in taken and name not in names:
            names.append(name)
    return names


def _still_wanted(
    group: WorkerGroup, replicas: Sequence[MultiHostReplica], begun: Mapping[str, int], most: int
) -> Mapping[str, int]:
    """Return the replicas to complete: none while there are enough without them."""
    named = frozenset(group.scale_strategy.workers_to_delete)
    staying = sum(_why_forced(each, group, begun, named) is None for each in replicas)
    return begun if staying <= most else {}


def _why_forced(
    each: MultiHostReplica, group: WorkerGroup, begun: Mapping[str, int], named: Collection[str]
) -> tuple[str, DeletionCause] | None:
    """Return why the replica must be deleted whatever the numbers are, None if it may stay."""
    for pod in each.pods:
        if pod.metadata.name in named and not pod.metadata.terminating:
            return _of_replica(each, pod, NAMED), DeletionCause.NAMED
    for pod in each.pods:
        defect = _defect(pod)
        if defect is not None:
            return _of_replica(each, pod, defect), DeletionCause.POD
    if each.is_whole(group.hosts) or is_unfinished(each, group, begun):
        return None
    what = f"its replica {each.name}" if each.name else "its replica"
    count = len(each.pods)
    if count == group.hosts:
        return f"{what} lacks some of its {count} hosts and has others", DeletionCause.RESIZED
    cause = DeletionCause.RESIZED if count > group.hosts else DeletionCause.POD
    return f"{what} has {count} of {group.hosts} hosts", cause


def _of_replica(each: MultiHostReplica, pod: Pod, reason: str) -> str:
    if not each.name:
        return reason
    return f"of pod {pod.metadata.name} of its replica {each.name}: {reason}"


def _defect(pod: Pod) -> str | None:
    reason = unhealthy_reason(pod)
    if reason is None and pod.metadata.terminating:
        return "it is being deleted"
    return reason


def _created(each: MultiHostReplica) -> str:
    return max(pod.metadata.creation_timestamp or "" for pod in each.pods)
