"""Finds the pods that a cluster lacks: their positions, and names that are idempotency keys.

The names follow from the observation, so a repeated create meets its own object. No more pods are
returned than one plan may create.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

from controller.apimachinery.names import child_name
from controller.ray.api import labels
from controller.ray.api.names import head_prefix, worker_prefix
from controller.ray.cluster.pods.losses import count_owed
from controller.ray.cluster.workers.multi_host import missing_hosts
from controller.ray.cluster.workers.scale_down import free_indices
from controller.ray.head.identity import HEAD_SCOPE, worker_scope
from controller.ray.pods.replica_position import ReplicaPosition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from controller.ray.api.raycluster import WorkerGroup
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster


@dataclass(frozen=True, slots=True)
class MissingPod:
    """A pod to be created: its name, and its position in its group if it has one."""

    name: str
    place: ReplicaPosition | None = None


MissingPods: TypeAlias = "Mapping[str, tuple[MissingPod, ...]]"
"""Missing pods by scope."""


def find_missing_pods(
    seen: ClusterObservation,
    desired: DesiredCluster,
    *,
    batch: int,
    without: Collection[str] = (),
) -> MissingPods:
    """Return the missing pods by scope, of all groups together no more than `batch`.

    Terminating pods still hold their positions. Groups share the batch, so that a group whose pods
    are refused leaves room for the others. It excludes groups with a write of unknown outcome and
    those in `without`.
    """
    cluster = desired.identity.name
    found: dict[str, tuple[MissingPod, ...]] = {}
    if not seen.heads:
        names = _free_names(seen, head_prefix(cluster), labels.HEAD_GROUP, 1)
        found[HEAD_SCOPE] = (MissingPod(names[0]),)
    short = [
        group
        for group in desired.spec.worker_group_specs
        if worker_scope(group.group_name) not in seen.pending_scopes
        and group.group_name not in without
        and _may_lack_pods(seen, group)
    ]
    for position, group in enumerate(short):
        name = group.group_name
        if name in seen.multi_host_replicas:
            places = _hosts(seen, group, batch)
        else:
            places = _positions(seen, group, ceil(batch / (len(short) - position)))
        if places:
            names = _free_names(seen, worker_prefix(cluster, name), name, len(places))
            found[worker_scope(name)] = tuple(map(MissingPod, names, places))
            batch -= len(places)
            if not batch:
                break
    return found


def _may_lack_pods(seen: ClusterObservation, group: WorkerGroup) -> bool:
    replicas = seen.multi_host_replicas.get(group.group_name, ())
    wanted = seen.wanted_units(group)
    if group.group_name in seen.multi_host_replicas:
        wanted *= group.hosts
    return len(seen.workers.get(group.group_name, ())) < wanted or any(
        len(each.pods) < group.hosts for each in replicas
    )


def _positions(
    seen: ClusterObservation, group: WorkerGroup, batch: int
) -> Sequence[ReplicaPosition | None]:
    pods = seen.workers.get(group.group_name, ())
    owed = count_owed(seen, worker_scope(group.group_name), pods)
    count = min(batch, max(0, seen.wanted_units(group) - len(pods) - owed))
    if group.hosts > 1:
        return [None] * count
    return [ReplicaPosition(index) for index in free_indices(pods, count)] if count else ()


def _hosts(seen: ClusterObservation, group: WorkerGroup, batch: int) -> Sequence[ReplicaPosition]:
    pods = seen.workers.get(group.group_name, ())
    return missing_hosts(
        group,
        seen.multi_host_replicas[group.group_name],
        seen.incomplete_replicas,
        owed=count_owed(seen, worker_scope(group.group_name), pods),
        owner_uid=seen.cluster.metadata.uid,
        revision=seen.pods_revision,
        batch=batch,
        wanted=seen.wanted_units(group),
    )


def _free_names(seen: ClusterObservation, prefix: str, group: str, count: int) -> list[str]:
    """Return names that no pod has: the same observed state gives the same names."""
    pods = seen.heads if group == labels.HEAD_GROUP else seen.workers.get(group, ())
    taken = seen.taken_pod_names.union(pod.metadata.name for pod in pods)
    names: list[str] = []
    position = 0
    while len(names) < count:
        name = child_name(
            prefix,
            owner_uid=seen.cluster.metadata.uid,
            group=group,
            position=position,
            revision=seen.pods_revision,
        )
        position += 1
        if name not in taken:
            names.append(name)
    return names
