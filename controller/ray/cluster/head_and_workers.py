"""The head and the workers of a cluster: which are missing or surplus, and the writes of both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import groupby, zip_longest
from math import ceil
from typing import Final, TypeAlias

from msgspec import Struct

from controller.apimachinery.metadata import child_name
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.names import PROVISIONED, SUSPENDED, head_prefix, worker_prefix
from controller.ray.api.pod_state import gcs_port, has_ended_since, is_announced, is_ready
from controller.ray.api.raycluster import RayCluster, WorkerGroup
from controller.ray.api.upgrade_strategy import RollingUpdate
from controller.ray.cluster.observation import (
    AnyCluster,
    ClusterObservation,
    WorkerUnit,
    WorkerUnits,
)
from controller.ray.cluster.pods import (
    count_owed,
    create_pod,
    delete_pod,
    drain_event,
    draining_now,
    draining_since,
    is_replacement_held,
    patch_pod,
    scope_of,
    unhealthy_reason,
)
from controller.ray.cluster.rollout import DRAINED, SURPLUS, DeletionCause, PodToDelete
from controller.ray.cluster.scale_down import deletion_order, missing_positions, pods_to_delete
from controller.ray.head import (
    HEAD_SCOPE,
    chosen_head,
    gcs_port_of,
    sets_gcs_port,
    worker_scope,
)
from controller.ray.pods import ReplicaPosition
from controller.runtime.plan import Create, Delete, LiveList, ReplicaMember, Write

# Decides when the head of a cluster is created and deleted, and which of several heads is kept.


def live_head(seen: ClusterObservation) -> Pod | None:
    """Return the head of the cluster that is not terminating, ended or not."""
    return chosen_head(pod for pod in seen.heads if not pod.metadata.terminating)


def create_head(seen: ClusterObservation, missing: MissingPods) -> Iterator[Write]:
    """Create a head only if there is none, not even a terminating one or another owner's."""
    if seen.heads or seen.foreign_heads or HEAD_SCOPE in seen.pending_scopes:
        return
    if is_replacement_held(seen, HEAD_SCOPE):
        return
    (head,) = missing[HEAD_SCOPE]
    yield create_pod(seen, seen.desired.builder.head(head.name), scope=HEAD_SCOPE, what="HeadPod")


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
        and seen.is_true(PROVISIONED)
    )


# Suspension: all pods are deleted, and a live list confirms it before the status says so.
#
# `Suspending` is stored before the first pod is deleted and is carried through whatever the
# specification then says. Only an explicit `suspend: false` ends `Suspended`.


def every_pod(cluster: RayCluster) -> LiveList:
    """Return a live list of all pods with the cluster's label, even if no informer selects them."""
    meta = cluster.metadata
    return LiveList(PODS, meta.namespace, f"{labels.CLUSTER}={meta.name}")


def delete_all_pods(seen: AnyCluster) -> Iterator[Write]:
    """Delete all pods of this cluster, each by its uid."""
    for pod in seen.all_pods:
        if not pod.metadata.terminating and scope_of(pod) not in seen.pending_scopes:
            yield delete_pod(seen, pod, what="Pod", reason="the cluster is being suspended")


def delete_latecomers(seen: ClusterObservation) -> Iterator[Write]:
    """Delete pods of a suspended cluster whose creates were in flight when it was suspended."""
    if seen.is_true(SUSPENDED) and seen.desired.spec.suspend is not False:
        yield from delete_all_pods(seen)


# Finds the pods that a cluster lacks: their positions, and names that are idempotency keys.
#
# The names follow from the observation, so a repeated create meets its own object. No more pods are
# returned than one plan may create.


class MissingPod(Struct, frozen=True):
    """A pod to be created: its name, and its position in its group if it has one."""

    name: str
    place: ReplicaPosition | None = None


MissingPods: TypeAlias = "Mapping[str, tuple[MissingPod, ...]]"
"""Missing pods by scope."""


def find_missing_pods(seen: ClusterObservation, *, without: Collection[str] = ()) -> MissingPods:
    """Return the missing pods by scope, of all groups together no more than a batch.

    Terminating pods still hold their positions. Groups share the batch, so that a group whose pods
    are refused leaves room for the others. It excludes groups with a write of unknown outcome and
    those in `without`.
    """
    cluster, batch = seen.desired.identity.name, seen.settings.batch
    found: dict[str, tuple[MissingPod, ...]] = {}
    if not seen.heads:
        names = _free_names(seen, head_prefix(cluster), labels.HEAD_GROUP, 1)
        found[HEAD_SCOPE] = (MissingPod(names[0]),)
    wanted = {name: seen.wanted_units(units) for name, units in seen.units.items()}
    short = [
        units
        for name, units in seen.units.items()
        if worker_scope(name) not in seen.pending_scopes
        and name not in without
        and _may_lack_pods(units, wanted[name])
    ]
    for position, units in enumerate(short):
        name = units.group.group_name
        share = batch if units.is_multi_host else ceil(batch / (len(short) - position))
        places = missing_positions(
            units,
            wanted=wanted[name],
            owner_uid=seen.cluster.metadata.uid,
            revision=seen.pods_revision,
            batch=share,
            owed=count_owed(seen, worker_scope(name), seen.workers.get(name, ())),
        )
        if places:
            names = _free_names(seen, worker_prefix(cluster, name), name, len(places))
            found[worker_scope(name)] = tuple(map(MissingPod, names, places))
            batch -= len(places)
            if not batch:
                break
    return found


def _may_lack_pods(units: WorkerUnits, wanted: int) -> bool:
    sizes, hosts = [len(each.pods) for each in units.units], units.hosts
    return sum(sizes) < wanted * hosts or any(size < hosts for size in sizes)


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


# Creates and deletes the workers of a cluster, group by group.
#
# A group is plain, each pod for itself, or consists of replicas of several hosts that are created
# and deleted together.

DRAIN_TIMEOUT: Final = timedelta(seconds=RollingUpdate().drain_timeout_seconds)
"""Time after which a drain is over if no valid specification sets another one."""

ABREAST = 8
"""Replicas created at the same time: more are faster, fewer leave less to undo after a crash."""


def create_workers(seen: ClusterObservation, missing: MissingPods) -> list[list[Write]]:
    """Return stages that create the missing workers, as far as this plan's batch goes.

    Pods of plain groups are created together, of each group in turn. The hosts of a replica are
    created one after the other, so that it is always known which of them exist; several replicas
    are created at the same time.
    """
    plain: list[list[Create]] = []
    sequences: list[list[Create]] = []
    for group in seen.desired.spec.worker_group_specs:
        found = missing.get(worker_scope(group.group_name), ())
        creates = _creates(seen, group, found)
        if seen.units[group.group_name].is_multi_host:
            sequences += ([*hosts] for _, hosts in groupby(creates, _replica))
        else:
            plain.append(creates)
    in_turn: list[Write] = [
        each for step in zip_longest(*plain) for each in step if each is not None
    ]
    return [in_turn, *_side_by_side(sequences)]


def _side_by_side(sequences: list[list[Create]]) -> Iterator[list[Write]]:
    """Yield stages that run so many sequences at a time, each step by step."""
    for begin in range(0, len(sequences), ABREAST):
        for step in zip_longest(*sequences[begin : begin + ABREAST]):
            yield [each for each in step if each is not None]


def delete_workers(seen: ClusterObservation, workers: Iterable[PodToDelete]) -> Iterator[Write]:
    """Delete these workers; those that serve requests and are only surplus are drained first."""
    has_head = any(is_ready(pod) and not pod.metadata.terminating for pod in seen.heads)
    for each in workers:
        surplus = each.cause is DeletionCause.SURPLUS
        if surplus and has_head and _serves(each.pod):
            why, why_many = f", because {SURPLUS}", f": {SURPLUS}"
            event = drain_event(
                each.pod, f" before its deletion{why}", f" before their deletion{why_many}"
            )
            yield from patch_pod(seen, each.pod, draining_now(seen), event, leaves_service=True)
        else:
            yield delete_pod(seen, each.pod, what="WorkerPod", reason=each.reason)


def _serves(pod: Pod) -> bool:
    """Return whether the service of a RayService leads to the worker."""
    return is_ready(pod) and (pod.metadata.labels or {}).get(labels.SERVE) == "true"


def delete_drained(seen: AnyCluster) -> tuple[list[Delete], float | None]:
    """Delete the workers whose drain is over, and return the seconds until the next one is.

    It asks neither the specification nor Ray, which may both be unreadable: a drain is over when
    its time has passed, or when Ray's container has ended since, with which its node leaves Ray.
    """
    deletions: list[Delete] = []
    waits: list[float] = []
    for pod in (pod for pods in seen.workers.values() for pod in pods):
        since = draining_since((pod,))
        if since is None or pod.metadata.terminating or scope_of(pod) in seen.pending_scopes:
            continue
        left = (since + DRAIN_TIMEOUT - seen.now).total_seconds()
        keeps_time = not is_announced(pod)
        if (keeps_time and left <= 0) or has_ended_since(pod, since):
            deletions.append(delete_pod(seen, pod, what="WorkerPod", reason=DRAINED))
        elif keeps_time:
            waits.append(left)
    return deletions, min(waits, default=None)


def workers_to_delete(seen: ClusterObservation) -> Iterator[PodToDelete]:
    """Yield the workers that specification, autoscaler or their own state condemns, in order."""
    for group in seen.desired.spec.worker_group_specs:
        if worker_scope(group.group_name) not in seen.pending_scopes:
            found = [*_of_group(seen, group)]
            yield from found
            yield from _of_former_port(seen, group, {each.pod.metadata.uid for each in found})
    yield from _of_removed_groups(seen)


def _of_former_port(
    seen: ClusterObservation, group: WorkerGroup, known: Collection[str]
) -> Iterator[PodToDelete]:
    """Yield workers that look for the GCS at another port than that of the head that is there.

    They never find it, however often they are restarted.
    """
    if sets_gcs_port(group) or not seen.heads:
        return
    port = gcs_port_of(seen.desired.spec, seen.desired.identity, seen.heads)
    for pod in seen.workers.get(group.group_name, ()):
        meta, its_own = pod.metadata, gcs_port(pod)
        if its_own and its_own != port and not meta.terminating and meta.uid not in known:
            reason = f"it looks for the GCS at port {its_own}, and the head listens on {port}"
            yield PodToDelete(pod, reason)


def _of_removed_groups(seen: ClusterObservation) -> Iterator[PodToDelete]:
    """Yield workers of groups removed from the specification, not those without a group."""
    known = {"", *(group.group_name for group in seen.desired.spec.worker_group_specs)}
    for group, pods in seen.workers.items():
        if group in known or worker_scope(group) in seen.pending_scopes:
            continue
        reason = f"group {group!r} is no longer in the specification"
        units = [WorkerUnit("", (pod,)) for pod in pods if not pod.metadata.terminating]
        for unit in deletion_order(units):
            yield PodToDelete(unit.pods[0], reason, DeletionCause.GROUP_REMOVED)


def _of_group(seen: ClusterObservation, group: WorkerGroup) -> Iterator[PodToDelete]:
    """Yield named and broken workers, and surplus ones unless the autoscaler decides on them."""
    name = group.group_name
    may_shrink = not seen.desired.spec.autoscaling or seen.settings.delete_unnamed
    yield from pods_to_delete(
        seen.units[name],
        wanted=seen.wanted_units(seen.units[name]),
        wanted_hash=seen.desired.builder.hashes[name],
        may_shrink=may_shrink,
        keep_ended=is_replacement_held(seen, worker_scope(name)),
    )
    if seen.rollout is not None:
        yield from seen.rollout.workers_to_delete(name, may_shrink=may_shrink)


def _creates(
    seen: ClusterObservation, group: WorkerGroup, missing: Sequence[MissingPod]
) -> list[Create]:
    if not missing:
        return []
    port = gcs_port_of(seen.desired.spec, seen.desired.identity, seen.heads)
    worker = seen.desired.builder.for_gcs_port(port).workers(group)
    scope = worker_scope(group.group_name)
    return [
        create_pod(
            seen,
            worker(each.name, each.place),
            scope=scope,
            what="WorkerPod",
            member=_member(each.place, group),
        )
        for each in missing
    ]


def _member(place: ReplicaPosition | None, group: WorkerGroup) -> ReplicaMember | None:
    if place is None or not place.replica_name:
        return None
    return ReplicaMember(place.replica_name, place.host_index, group.hosts)


def _replica(create: Create) -> str:
    """Return the replica of the pod, or the pod itself."""
    return create.target.name if create.member is None else create.member.replica
