"""The pods that a cluster lacks: their places, and names that are idempotency keys.

Only as many as one plan may create are worked out.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from controller.apimachinery.names import child_name
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.cluster.workers.multi_host import vacancies
from controller.ray.cluster.workers.scale_down import free_indices
from controller.ray.head.identity import HEAD_SCOPE, worker_scope
from controller.ray.pods.replica_position import ReplicaPosition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.kube.objects import Pod
    from controller.ray.api.raycluster import WorkerGroup
    from controller.ray.cluster.observe import Design
    from controller.ray.cluster.workers.multi_host import Slice
    from controller.ray.head.identity import Identity
    from controller.runtime.reconcile.kind import CacheReader


@dataclass(frozen=True, slots=True)
class Opening:
    """A pod that is missing: the name that it will have and its place, if it has one."""

    name: str
    place: ReplicaPosition | None = None


def find_openings(
    design: Design,
    heads: Sequence[Pod],
    workers: Mapping[str, Sequence[Pod]],
    slices: Mapping[str, Sequence[Slice]],
    reads: CacheReader,
    *,
    batch: int,
) -> dict[str, tuple[Opening, ...]]:
    """The missing pods by scope, of all groups together no more than `batch`.

    Pods that are going still hold their places. Groups share the batch, lest one whose pods are
    refused leave nothing to the others; one with a write of unknown outcome has no part in it.
    """
    identity = design.identity
    unsettled = reads.pending_scopes(identity.uid)
    found: dict[str, tuple[Opening, ...]] = {}
    if not heads:
        names = _names(f"{identity.name}-head", labels.HEAD_GROUP, 1, identity, reads)
        found[HEAD_SCOPE] = (Opening(names[0]),)
    short = [
        group
        for group in design.spec.worker_group_specs
        if worker_scope(group.group_name) not in unsettled and _is_short(group, workers, slices)
    ]
    for position, group in enumerate(short):
        name = group.group_name
        if name in slices:
            places = _places_in_slices(group, slices[name], identity, reads, batch)
        else:
            share = ceil(batch / (len(short) - position))
            places = _places(group, workers.get(name, ()), share)
        if places:
            prefix = f"{identity.name}-{name}-worker".lower()
            names = _names(prefix, name, len(places), identity, reads)
            found[worker_scope(name)] = tuple(map(Opening, names, places))
            batch -= len(places)
            if not batch:
                break
    return found


def _is_short(
    group: WorkerGroup, workers: Mapping[str, Sequence[Pod]], slices: Mapping[str, Sequence[Slice]]
) -> bool:
    """Whether the group may lack pods."""
    parts = slices.get(group.group_name, ())
    return len(workers.get(group.group_name, ())) < group.desired_pods or any(
        len(each.pods) < group.hosts for each in parts
    )


def _places(
    group: WorkerGroup, pods: Sequence[Pod], batch: int
) -> Sequence[ReplicaPosition | None]:
    count = min(batch, max(0, group.desired_pods - len(pods)))
    if group.hosts > 1:
        return [None] * count
    return [ReplicaPosition(index) for index in free_indices(pods, count)] if count else ()


def _places_in_slices(
    group: WorkerGroup, slices: Sequence[Slice], identity: Identity, reads: CacheReader, batch: int
) -> Sequence[ReplicaPosition]:
    return vacancies(
        group,
        slices,
        reads.incomplete_replicas(identity.uid),
        owner_uid=identity.uid,
        revision=reads.revision(PODS, identity.uid),
        batch=batch,
    )


def _names(
    prefix: str, group: str, count: int, identity: Identity, reads: CacheReader
) -> list[str]:
    """Names that nobody has: the same observed state gives the same ones."""
    revision = reads.revision(PODS, identity.uid)
    names: list[str] = []
    position = 0
    while len(names) < count:
        name = child_name(
            prefix,
            owner_uid=identity.uid,
            group=group,
            position=position,
            revision=revision,
        )
        position += 1
        key = f"{identity.namespace}/{name}"
        if not reads.has_name_conflict(PODS, key) and reads.get(PODS, key) is None:
            names.append(name)
    return names
