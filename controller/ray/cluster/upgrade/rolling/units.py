"""Divides the pods of a group into units to replace: single pods, or replicas of several hosts.

The pod itself stores since when it is draining, written before Ray is told. The state of a rollout
is that of its pods, so a restart of the operator changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from controller.apimachinery.conditions import time_of
from controller.ray.api import labels
from controller.ray.api.pod_state import is_ready
from controller.ray.cluster.observed.drain_memory import DrainMemory
from controller.ray.cluster.observed.rollout import PodUnits
from controller.ray.cluster.pods.healing import unhealthy_reason
from controller.ray.cluster.workers.multi_host import is_unfinished
from controller.ray.cluster.workers.scale_down import deletion_rank, template_hash
from controller.ray.dashboard import CommandRefused
from controller.ray.pods.hashes.template_hash import is_outdated
from controller.ray.rolling import Budget, Unit, UnitGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from controller.kube.objects import Pod
    from controller.ray.api.fields.upgrade_strategy import RollingUpdate
    from controller.ray.api.raycluster import WorkerGroup
    from controller.ray.cluster.observation import ClusterObservation
    from controller.ray.cluster.observed.ray_view import RayView
    from controller.ray.pods.hashes.template_hash import Hash


@dataclass(frozen=True, slots=True)
class _Reading:
    """The context in which the units of a group are read."""

    wanted_hash: Hash
    ray: RayView
    named: frozenset[str]
    drain_timeout: timedelta
    told: Mapping[str, str]
    now: datetime

    def unit(self, name: str, pods: Sequence[Pod], *, complete: bool, whole: bool) -> Unit:
        """Return a unit.

        Args:
            name: name of the pod or the replica.
            pods: pods of the unit.
            complete: whether no pod is missing.
            whole: whether no pod is missing but those that this process creates.
        """
        since = draining_since(pods)
        available = complete and all(is_ready(p) and self.ray.is_alive(p) for p in pods)
        return Unit(
            name,
            up_to_date=not any(is_outdated(template_hash(p), self.wanted_hash) for p in pods),
            available=available,
            joined=any(map(self._may_hold_work, pods)),
            draining=since is not None,
            drained=since is not None
            and (self.now >= since + self.drain_timeout or all(map(self._is_drained, pods))),
            gone=not whole or any(map(self._is_going, pods)),
        )

    def _may_hold_work(self, pod: Pod) -> bool:
        if is_ready(pod):
            return True
        return pod.status.phase != "Pending" and not self.ray.never_joined(pod)

    def _is_drained(self, pod: Pod) -> bool:
        if not self._may_hold_work(pod) or self.ray.is_dead(pod):
            return True
        node = self.ray.node_of(pod)
        command = self.told.get(node.id, "") if node is not None else ""
        return isinstance(self.ray.drains.get(command), CommandRefused)

    def _is_going(self, pod: Pod) -> bool:
        meta = pod.metadata
        return meta.terminating or meta.name in self.named or unhealthy_reason(pod) is not None


def draining_since(pods: Iterable[Pod]) -> datetime | None:
    """Return since when the first of the pods has been draining; None if none is."""
    stamps = ((pod.metadata.annotations or {}).get(labels.DRAINING_SINCE) for pod in pods)
    return min(filter(None, map(time_of, stamps)), default=None)


def read_units(
    seen: ClusterObservation,
    group: WorkerGroup,
    rolling: RollingUpdate,
    *,
    wanted_hash: Hash,
    unproven: bool,
    now: datetime,
) -> PodUnits:
    """Return the units of a group, in the order in which a scale-down would delete them."""
    name, ray = group.group_name, seen.ray
    named = frozenset(group.scale_strategy.workers_to_delete)
    timeout = timedelta(seconds=rolling.drain_timeout_seconds)
    memory = seen.history.drains if seen.history is not None else DrainMemory()
    reading = _Reading(wanted_hash, ray, named, timeout, memory.commands, now)
    members = sorted(_members(seen, group), key=lambda each: _rank(each[1], named, wanted_hash))
    units = tuple(
        reading.unit(unit, pods, complete=complete, whole=whole)
        for unit, pods, complete, whole in members
    )
    is_multi_host = name in seen.multi_host_replicas
    desired = group.desired_replicas if is_multi_host else group.desired_pods
    budget = Budget(rolling.unavailable_of(desired), rolling.surge_of(desired))
    return PodUnits(
        UnitGroup(name, desired, units, budget, unproven),
        group.hosts if is_multi_host else 1,
        {unit: pods for unit, pods, _, _ in members},
    )


def _members(
    seen: ClusterObservation, group: WorkerGroup
) -> Iterator[tuple[str, tuple[Pod, ...], bool, bool]]:
    """Yield name and pods of each unit, whether it is complete, and whether it may be so."""
    replicas = seen.multi_host_replicas.get(group.group_name)
    if replicas is None:
        for pod in seen.workers.get(group.group_name, ()):
            yield pod.metadata.name, (pod,), True, True
        return
    for each in replicas:
        complete = each.is_whole(group.hosts)
        whole = complete or is_unfinished(each, group, seen.incomplete_replicas)
        yield each.name or each.pods[0].metadata.name, each.pods, complete, whole


def _rank(
    pods: Sequence[Pod], named: frozenset[str], wanted_hash: Hash
) -> tuple[tuple[bool, ...], str]:
    return (
        min(deletion_rank(pod, named, wanted_hash) for pod in pods),
        min(pod.metadata.name for pod in pods),
    )
