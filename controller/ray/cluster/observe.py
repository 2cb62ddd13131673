"""Everything that a RayCluster's plan depends on, gathered from the caches at one moment."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.apimachinery.custom_object import conditions_of, status_of
from controller.apimachinery.ownership import is_owned_by
from controller.kube.resources import PODS
from controller.ray.api.feature_gates import MULTI_HOST_INDEXING
from controller.ray.api.pod_state import group_of, is_head
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.cluster.children.observed import ObservedChildren, observe_children
from controller.ray.cluster.deletion.steps import Cleanup, observe_cleanup
from controller.ray.cluster.suspension import every_pod
from controller.ray.cluster.workers.missing_pods import Opening, find_openings
from controller.ray.cluster.workers.multi_host import Slice, are_slices, read_slices
from controller.ray.head.watches import HEAD_INDEX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controller.apimachinery.problem import Problem
    from controller.kube.objects import Pod
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.head.identity import Identity
    from controller.ray.pods.builder import PodBuilder
    from controller.ray.settings import ClusterSettings
    from controller.runtime.reconcile.kind import CacheReader


@dataclass(frozen=True, slots=True)
class Design:
    """What follows from a valid RayCluster object alone; computed once per object.

    Attributes:
        spec: the parsed specification.
        identity: names and addresses of the parts.
        builder: builds the pods.
        unsupported: fields that are accepted and have no effect yet.
        warnings: sentences about what is odd but does not stop the cluster.
    """

    spec: ClusterSpec
    identity: Identity
    builder: PodBuilder
    unsupported: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """A RayCluster and its parts as they are.

    Attributes:
        cluster: the object.
        design: what follows from it; a `Problem` if it is not valid.
        heads: head pods that belong to it, those that are going included.
        foreign_heads: sentences about head pods with its label that belong to somebody else.
        workers: its worker pods by group, groups that are gone from the specification included.
        children: its parts whose names follow from its own: services, access, secrets.
        unreadable: sentences about pods that exist and cannot be decoded, so that nobody can
            count them.
        slices: its worker pods by replica, of the groups whose replicas have several hosts.
        openings: for each scope, the pods that are missing.
        begun: slices that this process is making, with the number of hosts made so far.
        confirmed: a live list has shown that there are no pods besides these.
        unsettled: scopes with a write of unknown outcome.
        lost_head: name of a head that the status knows and the cache does not show.
        cleanup: what is known of the removal of a deleted cluster's state from Redis.
        doubts: sentences of the ledger.
    """

    cluster: RayCluster
    design: Design | Problem
    heads: tuple[Pod, ...] = ()
    foreign_heads: tuple[str, ...] = ()
    workers: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict[str, "tuple[Pod, ...]"])
    children: ObservedChildren = field(default_factory=ObservedChildren)
    unreadable: tuple[str, ...] = ()
    slices: Mapping[str, tuple[Slice, ...]] = field(default_factory=dict[str, "tuple[Slice, ...]"])
    openings: Mapping[str, tuple[Opening, ...]] = field(
        default_factory=dict[str, "tuple[Opening, ...]"]
    )
    begun: Mapping[str, int] = field(default_factory=dict[str, int])
    confirmed: bool = False
    unsettled: frozenset[str] = frozenset()
    lost_head: str | None = None
    cleanup: Cleanup = field(default_factory=Cleanup)
    doubts: tuple[str, ...] = ()

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The present conditions."""
        return conditions_of(self.cluster)

    @property
    def all_pods(self) -> list[Pod]:
        """Heads and workers."""
        return [*self.heads, *(pod for pods in self.workers.values() for pod in pods)]

    @property
    def may_have_pods(self) -> bool:
        """Whether there are pods, or may be: unreadable, or of a write of unknown outcome."""
        return bool(self.all_pods or self.unreadable or self.unsettled)


def observe_cluster(
    key: str,
    reads: CacheReader,
    design_of: Callable[[RayCluster], Design | Problem],
    settings: ClusterSettings,
) -> Observation | None:
    """Read the cluster `namespace/name` and its parts; None if it does not exist."""
    cluster = reads.get(RAYCLUSTERS, key)
    if cluster is None:
        return None
    design = design_of(cluster)
    uid = cluster.metadata.uid
    heads, workers = _sorted_by_role(reads.by_index(PODS, "owner", uid))
    if not isinstance(design, Design):
        cleanup = observe_cleanup(cluster, reads)
        return Observation(cluster, design, heads, workers=workers, cleanup=cleanup)
    slices = _slices(design, workers, settings)
    return Observation(
        cluster,
        design,
        heads=heads,
        foreign_heads=tuple(_foreign_heads(key, uid, reads)),
        workers=workers,
        children=observe_children(cluster, design, reads, settings, has_head=bool(heads)),
        unreadable=tuple(_unreadable_pods(cluster, reads)),
        slices=slices,
        openings=find_openings(design, heads, workers, slices, reads, batch=settings.batch),
        begun=reads.incomplete_replicas(uid),
        confirmed=reads.has_listed(every_pod(cluster), uid),
        unsettled=reads.pending_scopes(uid),
        lost_head=_lost_head(cluster, heads, reads),
        cleanup=observe_cleanup(cluster, reads),
        doubts=reads.consistency_warnings(uid),
    )


def _sorted_by_role(pods: Iterable[Pod]) -> tuple[tuple[Pod, ...], dict[str, tuple[Pod, ...]]]:
    heads: list[Pod] = []
    workers: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if is_head(pod):
            heads.append(pod)
        else:
            workers[group_of(pod)].append(pod)
    return tuple(heads), {group: tuple(members) for group, members in workers.items()}


def _slices(
    design: Design, workers: Mapping[str, tuple[Pod, ...]], settings: ClusterSettings
) -> dict[str, tuple[Slice, ...]]:
    if not settings.feature_gates.enabled(MULTI_HOST_INDEXING):
        return {}
    pods_of = {
        group.group_name: workers.get(group.group_name, ())
        for group in design.spec.worker_group_specs
        if are_slices(group, workers.get(group.group_name, ()))
    }
    return {name: read_slices(pods) for name, pods in pods_of.items()}


def _foreign_heads(key: str, uid: str, reads: CacheReader) -> Iterable[str]:
    for pod in reads.by_index(PODS, HEAD_INDEX, key):
        if not is_owned_by(pod.metadata, uid):
            owner = pod.metadata.controller
            whose = f"{owner.kind} {owner.name} (uid {owner.uid})" if owner else "nobody"
            yield (
                f"pod {pod.metadata.name} carries the labels of this cluster's head "
                f"and belongs to {whose}"
            )


def _unreadable_pods(cluster: RayCluster, reads: CacheReader) -> Iterable[str]:
    """Pods that go by their name are ours, but whose labels and state nobody can tell."""
    meta = cluster.metadata
    for name, reason in sorted(reads.unreadable(PODS, meta.namespace).items()):
        if name.startswith(f"{meta.name}-"):
            yield f"pod {name} exists but cannot be read: {reason}"


def _lost_head(cluster: RayCluster, heads: Sequence[Pod], reads: CacheReader) -> str | None:
    head: dict[str, Any] = status_of(cluster).get("head") or {}
    name = head.get("podName")
    if heads or not name or not isinstance(name, str):
        return None
    key = f"{cluster.metadata.namespace}/{name}"
    if reads.get(PODS, key) is not None or reads.looked_up_absent(PODS, key):
        return None
    return name
