"""Drains workers: records the time on the pod, tells Ray, then asks Ray for the result."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.names import suffix
from controller.ray.api import labels
from controller.ray.cluster.observed.drain_memory import DrainMemory
from controller.ray.cluster.observed.rollout import AT_REST, Verdict
from controller.ray.cluster.pods.writes import pod_target, scope_of
from controller.ray.cluster.upgrade.rolling.units import draining_since
from controller.ray.dashboard import (
    DrainNodes,
    HeadCommand,
    HealthProbe,
    NodesProbe,
    ProbeSubscription,
)
from controller.runtime.plan import Event, MergePatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from controller.kube.objects import Pod
    from controller.ray.cluster.observation import ClusterObservation
    from controller.ray.cluster.observed.rollout import Rollout
    from controller.runtime.plan import Plan, Write


def drain_writes(seen: ClusterObservation, now: datetime) -> Iterator[Write]:
    """Record the time since which pods are draining on them.

    A time in the future came from a clock that has gone back since; it is written anew.
    """
    if seen.rollout is None:
        return
    for each in seen.rollout.groups.values():
        for pod in each.pods_of(each.moves.drain):
            if scope_of(pod) not in seen.pending_scopes:
                yield _stamp(seen, pod, now, _begins(pod))
        for pod in each.pods_of(each.leaving):
            since = draining_since((pod,))
            if since is not None and since > now and scope_of(pod) not in seen.pending_scopes:
                yield _stamp(seen, pod, now)


def with_ray(plan: Plan, seen: ClusterObservation) -> Plan:
    """Return the plan with its probes and commands for Ray; it remembers the commanded nodes."""
    rollout, head = seen.rollout, seen.ray.head
    if rollout is None or head is None or not _is_interested(rollout):
        return plan
    plan = replace(
        plan,
        subscriptions=(
            ProbeSubscription(head, NodesProbe()),
            ProbeSubscription(head, HealthProbe()),
        ),
    )
    memory = seen.history.drains if seen.history is not None else DrainMemory()
    if memory.head != head:
        memory = DrainMemory(head)
    told = memory.commands
    nodes = _untold(seen, rollout, told)
    if not nodes or plan.commit is not None or plan.lookups:
        return plan
    until = min(nodes.values()) + timedelta(seconds=rollout.settings.drain_timeout_seconds)
    command = f"drain-{suffix(*sorted(nodes))}"
    serving = any(labels.SERVE in (pod.metadata.labels or {}) for pod in _leaving(rollout))
    drain = DrainNodes(command, until, tuple(sorted(nodes)), until, serving)
    kept = replace(plan.memory, drains=DrainMemory(head, {**told, **dict.fromkeys(nodes, command)}))
    return replace(plan, commands=(HeadCommand(head, drain),), memory=kept)


def _is_interested(rollout: Rollout) -> bool:
    return rollout.is_leaving or rollout.verdict not in AT_REST | {Verdict.PAUSED}


def _untold(
    seen: ClusterObservation, rollout: Rollout, told: Mapping[str, str]
) -> dict[str, datetime]:
    """Return the living nodes of draining pods that Ray was not told of, and since when."""
    found: dict[str, datetime] = {}
    for pod in _leaving(rollout):
        node, since = seen.ray.node_of(pod), draining_since((pod,))
        if node is not None and node.alive and since is not None and node.id not in told:
            found[node.id] = since
    return found


def _leaving(rollout: Rollout) -> Iterator[Pod]:
    for each in rollout.groups.values():
        yield from each.pods_of(each.leaving)


def _stamp(
    seen: ClusterObservation, pod: Pod, now: datetime, event: Event | None = None
) -> MergePatch:
    meta, stamp = pod.metadata, {labels.DRAINING_SINCE: rfc3339(now)}
    target = pod_target(seen, meta.name, scope_of(pod))
    return MergePatch(target, meta.uid, {"metadata": {"annotations": stamp}}, on_success=event)


def _begins(pod: Pod) -> Event:
    return Event(
        "Normal",
        "DrainingWorkerPod",
        "Update",
        f"Draining pod {pod.metadata.name}, which was created from an older template",
        aggregate_note="Draining {count} pods that were created from an older template",
    )
