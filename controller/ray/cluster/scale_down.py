"""Chooses the workers of a group to create and to delete, in units that come and go as one.

All functions compute on values. Terminating pods still count as existing, so nothing is replaced
before it is gone. The order of deletion never depends on the order in which a cache lists pods.

The hosts of a replica ("slice") compute together, so one without all of its hosts is worthless: it
is deleted whole, and then replaced under a new name. A replica that is still being created looks
the same. The difference is what this process remembers: hosts are created in the order of their
indices, so a replica that has exactly the hosts created so far is completed. After a crash this
memory is lost; an incomplete replica is then deleted, once, and never repaired in part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from controller.apimachinery.metadata import suffix
from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.api.pod_state import is_ready
from controller.ray.cluster.observation import WorkerUnit, WorkerUnits
from controller.ray.cluster.pods import template_hash, unhealthy_reason
from controller.ray.cluster.rollout import NAMED, SURPLUS, DeletionCause, PodToDelete
from controller.ray.pods import ReplicaPosition
from controller.ray.pods.hashes import is_outdated

_SUFFIX_LENGTH = 5
_LONGEST_LABEL = 63


def pods_to_delete(
    units: WorkerUnits,
    *,
    wanted: int,
    wanted_hash: str | None,
    may_shrink: bool,
    keep_ended: bool = False,
) -> tuple[PodToDelete, ...]:
    """Return the pods of the group to delete now, unit by unit.

    Args:
        units: its units.
        wanted: number of units.
        wanted_hash: template hash that new pods carry.
        may_shrink: False while the autoscaler decides: then only named or broken units go.
        keep_ended: whether ended pods stay unless they are named or surplus.
    """
    units, named = _completable(units, wanted), _named(units)
    live = [each for each in units.units if each.live]
    reasons = {id(each): _why_forced(units, each, named) for each in live}
    forced = sum(reason is not None for reason in reasons.values())
    surplus = len(live) - wanted if may_shrink or units.group.suspend else 0
    count = max(forced, surplus)
    if not count:
        return ()
    ordered = deletion_order(live, named=named, wanted_hash=wanted_hash)
    ordered.sort(key=lambda each: reasons[id(each)] is None)
    found = [
        (position, PodToDelete(pod, *(reasons[id(each)] or (SURPLUS, DeletionCause.SURPLUS))))
        for position, each in enumerate(ordered[:count])
        for pod in each.live
    ]
    return tuple(
        each
        for position, each in found
        if position < surplus
        or not keep_ended
        or each.cause is not DeletionCause.POD
        or unhealthy_reason(each.pod) is None
    )


def deletion_order(
    units: Iterable[WorkerUnit], *, named: Collection[str] = (), wanted_hash: str | None = None
) -> list[WorkerUnit]:
    """Order live units for deletion: by `deletion_rank`, then newest first, then by name."""
    ordered = sorted(units, key=lambda each: (each.name, each.pods[0].metadata.name))
    ordered.sort(key=_created, reverse=True)
    ordered.sort(key=lambda each: min(deletion_rank(pod, named, wanted_hash) for pod in each.live))
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


def is_unfinished(units: WorkerUnits, each: WorkerUnit) -> bool:
    """Return whether a replica lacks only the hosts that this process has not created yet."""
    hosts, named = each.host_indices, units.group.scale_strategy.workers_to_delete
    return (
        len(hosts) < units.hosts
        and len(hosts) == units.begun.get(each.name)
        and hosts == [str(number) for number in range(len(hosts))]
        and all(_defect(pod) is None and pod.metadata.name not in named for pod in each.pods)
    )


def missing_positions(
    units: WorkerUnits, *, wanted: int, owner_uid: str, revision: str, batch: int, owed: int = 0
) -> list[ReplicaPosition | None]:
    """Return the positions of missing pods, first in replicas that are being created.

    A replica is begun only if the batch has room for all of it, or if it is the first: then it gets
    as many hosts as the batch has room for. `owed` units are not replaced yet. Hosts whose replica
    is not known have no position.
    """
    units, hosts = _completable(units, wanted), units.hosts
    places: list[ReplicaPosition | None] = []
    for each in units.units:
        if is_unfinished(units, each):
            index = int(each.index) if each.index.isdigit() else 0
            end = min(hosts, len(each.pods) + batch - len(places))
            places += (
                ReplicaPosition(index, each.name, host) for host in range(len(each.pods), end)
            )
    missing = max(0, wanted - len(units.units) - owed)
    room = max(batch - len(places), 0 if places else hosts)
    count = min(missing, room // hosts)
    if units.group.hosts > hosts:
        return [*places, *[None] * count]
    indices = _free_indices((pod for each in units.units for pod in each.pods), count)
    if hosts == 1:
        return [*places, *map(ReplicaPosition, indices)]
    names = _names(units, count, owner_uid=owner_uid, revision=revision)
    for index, name in zip(indices, names, strict=True):
        places += (ReplicaPosition(index, name, host) for host in range(min(hosts, batch)))
    return places


def _free_indices(pods: Iterable[Pod], count: int) -> list[int]:
    """Return the lowest replica indices that no pod has."""
    if not count:
        return []
    used = {(pod.metadata.labels or {}).get(labels.REPLICA_INDEX) for pod in pods}
    indices: list[int] = []
    candidate = 0
    while len(indices) < count:
        if str(candidate) not in used:
            indices.append(candidate)
        candidate += 1
    return indices


def _names(units: WorkerUnits, count: int, *, owner_uid: str, revision: str) -> list[str]:
    """Return `<group>-<5 characters>`: the same observed state gives the same names."""
    group, taken = units.group.group_name, {each.name for each in units.units}
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


def _completable(units: WorkerUnits, wanted: int) -> WorkerUnits:
    """Return the units without replicas to complete if there are enough without them."""
    if not units.begun:
        return units
    named = _named(units)
    staying = sum(_why_forced(units, each, named) is None for each in units.units)
    return units if staying <= wanted else replace(units, begun={})


def _named(units: WorkerUnits) -> frozenset[str]:
    return frozenset(units.group.scale_strategy.workers_to_delete)


def _why_forced(
    units: WorkerUnits, each: WorkerUnit, named: Collection[str]
) -> tuple[str, DeletionCause] | None:
    """Return why the unit must be deleted whatever the numbers are, None if it may stay."""
    for pod in each.pods:
        if pod.metadata.name in named and not pod.metadata.terminating:
            return _of_replica(each, pod, NAMED), DeletionCause.NAMED
    for pod in each.pods:
        defect = _defect(pod)
        if defect is not None:
            return _of_replica(each, pod, defect), DeletionCause.POD
    if units.is_whole(each) or is_unfinished(units, each):
        return None
    what = f"its replica {each.name}" if each.name else "its replica"
    count = len(each.pods)
    if count == units.hosts:
        return f"{what} lacks some of its {count} hosts and has others", DeletionCause.RESIZED
    cause = DeletionCause.RESIZED if count > units.hosts else DeletionCause.POD
    return f"{what} has {count} of {units.hosts} hosts", cause


def _of_replica(each: WorkerUnit, pod: Pod, reason: str) -> str:
    if not each.name:
        return reason
    return f"of pod {pod.metadata.name} of its replica {each.name}: {reason}"


def _defect(pod: Pod) -> str | None:
    reason = unhealthy_reason(pod)
    if reason is None and pod.metadata.terminating:
        return "it is being deleted"
    return reason


def _created(each: WorkerUnit) -> str:
    return max(pod.metadata.creation_timestamp or "" for pod in each.pods)
