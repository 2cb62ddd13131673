"""The input of a RayCluster's plan: the desired and the present state.

Both are values: the same ones give the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import IdentityMemo, conditions_of
from controller.ray.cluster.observed.children import ObservedChildren
from controller.ray.cluster.observed.cleanup import Cleanup
from controller.ray.cluster.observed.ray_view import RayView
from controller.runtime.reconcile.definitions.installed_definition import InstalledDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from controller.apimachinery.problem import Problem
    from controller.kube.objects import Pod
    from controller.ray.api.raycluster import ClusterSpec, RayCluster, WorkerGroup
    from controller.ray.cluster.observed.multi_host_replicas import MultiHostReplica
    from controller.ray.cluster.observed.pod_history import Losses, PodHistory
    from controller.ray.cluster.observed.revision_history import RevisionHistory
    from controller.ray.cluster.observed.rollout import Rollout
    from controller.ray.head.identity import Identity
    from controller.ray.pods.builder import PodBuilder

_CONDITIONS: Final = IdentityMemo(conditions_of)
"""The conditions of an object; a plan reads them forty times."""


@dataclass(frozen=True, slots=True)
class DesiredCluster:
    """The part of a plan that follows from a valid RayCluster alone; computed once per object.

    Attributes:
        spec: the parsed specification.
        identity: names and addresses of its children.
        builder: builds the pods.
        unsupported_fields: fields that are accepted and have no effect yet.
        warnings: sentences about questionable settings that do not stop the cluster.
    """

    spec: ClusterSpec
    identity: Identity
    builder: PodBuilder
    unsupported_fields: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterObservation:
    """A RayCluster and its children in their present state.

    Attributes:
        cluster: the object.
        desired: the desired state that follows from it; a `Problem` if it is not valid.
        heads: head pods that belong to it, including terminating ones.
        foreign_heads: sentences about head pods with its label that belong to another owner.
        workers: its worker pods by group, including groups removed from the specification.
        children: its services, access objects, secrets and claims.
        unreadable: sentences about existing pods that cannot be decoded and therefore not be
            counted.
        multi_host_replicas: the replicas of the groups whose replicas have several hosts, by group.
        incomplete_replicas: replicas that this process is creating, with the number of hosts
            created so far.
        pods_revision: newest revision of pods observed; names of new pods depend on it.
        taken_pod_names: names that another owner's pods were found to have.
        pods_listed: whether a live list has shown that there are no pods besides these.
        pending_scopes: scopes with a write of unknown outcome.
        lost_head: name of a head that is in the status but not in the cache.
        revisions: earlier templates of its pods; None if they are not kept.
        cleanup: the observed removal of a deleted cluster's state from Redis.
        unknown_fields: a sentence that names the unknown fields of its pod templates; may be empty.
        definition: the fields that the installed definition of RayClusters lacks.
        consistency_warnings: sentences about disagreements of the cache and the API server.
        created_pods: pods that this process created since the last plan; some may be gone already.
        history: the history of the pods: until the last plan while observing, until now while
            planning. None if there was no plan yet.
        ray: Ray's reports, if an upgrade needs them.
        rollout: the state of a rolling update while planning; None if there is none.
        clock_steady_since: time since which the clock has not jumped; None if unknown.
    """

    cluster: RayCluster
    desired: DesiredCluster | Problem
    heads: tuple[Pod, ...] = ()
    foreign_heads: tuple[str, ...] = ()
    workers: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict[str, "tuple[Pod, ...]"])
    children: ObservedChildren = field(default_factory=ObservedChildren)
    unreadable: tuple[str, ...] = ()
    multi_host_replicas: Mapping[str, tuple[MultiHostReplica, ...]] = field(
        default_factory=dict[str, "tuple[MultiHostReplica, ...]"]
    )
    incomplete_replicas: Mapping[str, int] = field(default_factory=dict[str, int])
    pods_revision: str = ""
    taken_pod_names: frozenset[str] = frozenset()
    pods_listed: bool = False
    pending_scopes: frozenset[str] = frozenset()
    lost_head: str | None = None
    revisions: RevisionHistory | None = None
    cleanup: Cleanup = field(default_factory=Cleanup)
    unknown_fields: str = ""
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)
    consistency_warnings: tuple[str, ...] = ()
    created_pods: tuple[Pod, ...] = ()
    history: PodHistory | None = None
    ray: RayView = field(default_factory=RayView)
    rollout: Rollout | None = None
    clock_steady_since: datetime | None = None

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The present conditions."""
        return _CONDITIONS(self.cluster)

    @property
    def all_pods(self) -> list[Pod]:
        """Heads and workers."""
        return [*self.heads, *(pod for pods in self.workers.values() for pod in pods)]

    def wanted_units(self, group: WorkerGroup) -> int:
        """Return the desired number of pods, or of replicas of a multi-host group."""
        upgrade = self.rollout.groups.get(group.group_name) if self.rollout is not None else None
        if upgrade is not None:
            return upgrade.wanted
        is_multi_host = group.group_name in self.multi_host_replicas
        return group.desired_replicas if is_multi_host else group.desired_pods

    @property
    def repeated_losses(self) -> Mapping[str, Losses]:
        """The scopes whose replacements of lost pods were lost too, with their losses."""
        if self.history is None:
            return {}
        return {scope: each for scope, each in self.history.losses.items() if each.repeated}

    @property
    def awaits_revision(self) -> bool:
        """True if pods are replaced only after their present templates have been stored."""
        return self.revisions is not None and self.revisions.is_awaited

    @property
    def may_have_pods(self) -> bool:
        """True if pods exist or may exist: unreadable ones, or writes of unknown outcome."""
        return bool(self.all_pods or self.unreadable or self.pending_scopes)
