"""Everything that a RayCluster's plan depends on, gathered from the caches at one moment."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.kube.resources import PODS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SERVICES
from controller.ray.api import labels
from controller.ray.api.names import checked_name
from controller.ray.api.raycluster import RAYCLUSTERS, conditions_of, status_of
from controller.ray.cluster.identity import HEAD_SCOPE, worker_scope
from controller.ray.cluster.pod_state import group_of, is_head
from controller.ray.cluster.scale import missing
from controller.ray.cluster.services import headless_service_name, needs_headless_service
from controller.runtime.names import child_name
from controller.runtime.ownership import is_owned_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controller.kube.objects import Pod, Service
    from controller.kube.resources import Resource
    from controller.ray.api.problem import Problem
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.cluster.identity import Identity
    from controller.ray.cluster.pods import PodBuilder
    from controller.ray.cluster.settings import ClusterSettings
    from controller.runtime.kind import Reads

HEAD_INDEX = "head"
"""Pods labelled as heads, by `namespace/cluster` of their labels, whoever owns them."""


def head_keys(pod: Pod) -> Sequence[str]:
    """Index function of `HEAD_INDEX`; also the RayCluster that an event of the pod wakes."""
    cluster = (pod.metadata.labels or {}).get(labels.CLUSTER)
    return (f"{pod.metadata.namespace}/{cluster}",) if cluster and is_head(pod) else ()


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
        head_service: the service in front of the head.
        absent: parts with fixed names that do not exist: `Service/a-head-svc`.
        blocked: sentences about parts whose name belongs to somebody else.
        unreadable: sentences about pods that exist and cannot be decoded, so that nobody can
            count them.
        names: for each scope, names for the pods that are missing.
        unsettled: scopes with a write of unknown outcome.
        lost_head: name of a head that the status knows and the cache does not show.
        doubts: sentences of the ledger.
    """

    cluster: RayCluster
    design: Design | Problem
    heads: tuple[Pod, ...] = ()
    foreign_heads: tuple[str, ...] = ()
    workers: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict[str, "tuple[Pod, ...]"])
    head_service: Service | None = None
    absent: frozenset[str] = frozenset()
    blocked: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    unsettled: frozenset[str] = frozenset()
    lost_head: str | None = None
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
        """Whether there are pods, or may be once a write of unknown outcome is settled."""
        return bool(self.all_pods or self.unsettled)


def observe_cluster(
    key: str,
    reads: Reads,
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
        return Observation(cluster, design, heads, workers=workers)
    service, blocked, absent = _fixed_parts(design, reads)
    return Observation(
        cluster,
        design,
        heads=heads,
        foreign_heads=tuple(_foreign_heads(key, uid, reads)),
        workers=workers,
        head_service=service,
        absent=absent,
        blocked=blocked,
        unreadable=tuple(_unreadable_pods(cluster, reads)),
        names=_free_names(design, heads, workers, reads, settings.batch),
        unsettled=reads.unsettled_scopes(uid),
        lost_head=_lost_head(cluster, heads, reads),
        doubts=reads.doubts(uid),
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


def _foreign_heads(key: str, uid: str, reads: Reads) -> Iterable[str]:
    for pod in reads.by_index(PODS, HEAD_INDEX, key):
        if not is_owned_by(pod.metadata, uid):
            owner = pod.metadata.controller
            whose = f"{owner.kind} {owner.name} (uid {owner.uid})" if owner else "nobody"
            yield (
                f"pod {pod.metadata.name} carries the labels of this cluster's head "
                f"and belongs to {whose}"
            )


def _unreadable_pods(cluster: RayCluster, reads: Reads) -> Iterable[str]:
    """Pods that go by their name are ours, but whose labels and state nobody can tell."""
    meta = cluster.metadata
    for name, reason in sorted(reads.unreadable(PODS, meta.namespace).items()):
        if name.startswith(f"{meta.name}-"):
            yield f"pod {name} exists but cannot be read: {reason}"


def _fixed_parts(
    design: Design, reads: Reads
) -> tuple[Service | None, tuple[str, ...], frozenset[str]]:
    """The head service, sentences about names that are taken, and what does not exist."""
    identity, spec = design.identity, design.spec
    service = _own_head_service(identity, reads)
    wanted: list[tuple[Resource[Any], str]] = []
    if service is None:
        wanted.append((SERVICES, identity.head_service))
    if needs_headless_service(spec):
        wanted.append((SERVICES, headless_service_name(identity)))
    if spec.autoscaling:
        role = checked_name(identity.name)
        wanted += [(ROLES, role), (ROLE_BINDINGS, role)]
        if not spec.head_group_spec.template["spec"].get("serviceAccountName"):
            wanted.append((SERVICE_ACCOUNTS, identity.service_account))
    blocked: list[str] = []
    absent: set[str] = set()
    for resource, name in wanted:
        key = f"{identity.namespace}/{name}"
        present = reads.get(resource, key)
        if present is None and not reads.is_taken(resource, key):
            absent.add(f"{resource.kind}/{name}")
        elif resource is not SERVICES:
            continue  # access that somebody else set up will do
        elif present is None or not is_owned_by(present.metadata, identity.uid):
            blocked.append(f"{resource.kind} {name} exists and does not belong to this cluster")
    return service, tuple(blocked), frozenset(absent)


def _own_head_service(identity: Identity, reads: Reads) -> Service | None:
    """The service in front of the head: by its name, else any of ours that is labelled so."""
    services = [
        service
        for service in reads.by_index(SERVICES, "owner", identity.uid)
        if (service.metadata.labels or {}).get(labels.NODE_TYPE) == labels.HEAD
    ]
    for service in services:
        if service.metadata.name == identity.head_service:
            return service
    return services[0] if services else None


def _lost_head(cluster: RayCluster, heads: Sequence[Pod], reads: Reads) -> str | None:
    head: dict[str, Any] = status_of(cluster).get("head") or {}
    name = head.get("podName")
    if heads or not name or not isinstance(name, str):
        return None
    key = f"{cluster.metadata.namespace}/{name}"
    if reads.get(PODS, key) is not None or reads.looked_up_absent(PODS, key):
        return None
    return name


def _free_names(
    design: Design,
    heads: Sequence[Pod],
    workers: Mapping[str, Sequence[Pod]],
    reads: Reads,
    batch: int,
) -> dict[str, tuple[str, ...]]:
    """Names for missing pods, as many as one plan may create."""
    identity = design.identity
    revision = reads.revision(PODS, identity.uid)

    def choose(prefix: str, group: str, count: int) -> tuple[str, ...]:
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
            if not reads.is_taken(PODS, key) and reads.get(PODS, key) is None:
                names.append(name)
        return tuple(names)

    cluster = identity.name
    names: dict[str, tuple[str, ...]] = {}
    if not heads:
        names[HEAD_SCOPE] = choose(f"{cluster}-head", labels.HEAD_GROUP, 1)
    for group in design.spec.worker_group_specs:
        count = min(batch, missing(group, workers.get(group.group_name, ())))
        if count:
            prefix = f"{cluster}-{group.group_name}-worker".lower()
            names[worker_scope(group.group_name)] = choose(prefix, group.group_name, count)
    return names
