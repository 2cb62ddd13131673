"""What to do about a RayCluster: read `plan_cluster` from top to bottom.

Pure: the plan follows from the observation, the settings and the time alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.raycluster import is_managed_elsewhere, status_of
from controller.ray.cluster import scale
from controller.ray.cluster.conditions import (
    PROVISIONED,
    READY,
    SUSPENDED,
    SUSPENDING,
    is_true,
)
from controller.ray.cluster.fixed_parts import create_fixed_parts
from controller.ray.cluster.identity import HEAD_SCOPE, worker_scope
from controller.ray.cluster.observe import Design
from controller.ray.cluster.place import Place
from controller.ray.cluster.pod_state import is_head, is_ready, unhealthy_reason
from controller.ray.cluster.status import cluster_status, refusal_status
from controller.runtime.conditions import find_condition
from controller.runtime.plan import NOTHING, Create, Delete, Event, Lookup, Plan, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from controller.kube.objects import Pod
    from controller.ray.api.problem import Problem
    from controller.ray.cluster.observe import Observation
    from controller.ray.cluster.settings import ClusterSettings
    from controller.runtime.plan import StatusPatch, Write

HINDERED_RETRY = 30.0
"""Seconds until a name that is taken or a pod that cannot be read is looked at again: nobody need
tell us when it has gone."""


def plan_cluster(seen: Observation, settings: ClusterSettings, now: datetime) -> Plan:
    """The plan that brings the cluster nearer to its specification."""
    if is_managed_elsewhere(seen.cluster):
        return NOTHING
    if not isinstance(seen.design, Design):
        return _refuse(seen, seen.design, now)
    status = cluster_status(seen, seen.design, (), now)
    if seen.cluster.metadata.terminating:
        return Plan(status=status)  # the garbage collector follows the owner references
    if is_true(seen.conditions, SUSPENDING):
        return Plan(stages=_stages(_delete_all(seen)), status=status)
    if seen.lost_head is not None:
        return Plan(lookups=(Lookup(_pod(seen, seen.lost_head, HEAD_SCOPE)),))
    plan = _build(seen, seen.design, settings, status)
    return replace(plan, events=tuple(_warnings(seen, seen.design)))


def _build(
    seen: Observation, design: Design, settings: ClusterSettings, status: StatusPatch
) -> Plan:
    """Make what is missing and delete what is too much."""
    parts = list(create_fixed_parts(seen, design, settings))
    if seen.fixed.blocked or seen.unreadable:
        return Plan(stages=_stages(parts), status=status, wake_after=HINDERED_RETRY)
    if design.spec.suspend or is_true(seen.conditions, SUSPENDED):
        return Plan(stages=_stages([*parts, *_delete_latecomers(seen, design)]), status=status)
    if _must_not_restart(seen):
        return Plan(stages=_stages(parts), status=status)
    head = list(_create_head(seen, design))
    deletions = [*_delete_heads(seen), *_delete_workers(seen, design, settings)]
    deletions += _delete_removed_groups(seen, design)
    workers = list(_create_workers(seen, design, settings.batch))
    if head:  # a quota that is too small must not be spent on workers without a head
        stages = _stages(parts, [*head, *deletions], workers)
    else:
        stages = _stages(parts, [*deletions, *workers])
    return Plan(stages=stages, status=status)


def _refuse(seen: Observation, problem: Problem, now: datetime) -> Plan:
    """Say what is wrong on the object, once as an event, and touch nothing."""
    ready = find_condition(seen.conditions, READY) or {}
    said = (ready.get("message"), ready.get("observedGeneration"))
    is_new = said != (str(problem), seen.cluster.metadata.generation)
    event = Event("Warning", problem.reason, "Validate", str(problem))
    return Plan(status=refusal_status(seen, problem, now), events=(event,) if is_new else ())


def _warnings(seen: Observation, design: Design) -> Iterator[Event]:
    """What is odd about the specification, once a generation."""
    if status_of(seen.cluster).get("observedGeneration") != seen.cluster.metadata.generation:
        for warning in design.warnings:
            yield Event("Warning", "InvalidRayClusterSpec", "Validate", warning)


def _create_head(seen: Observation, design: Design) -> Iterator[Write]:
    """A head only when there is none, of ours or of anybody's, not even one that is going."""
    if seen.heads or seen.foreign_heads or HEAD_SCOPE in seen.unsettled:
        return
    name = seen.names[HEAD_SCOPE][0]
    yield _create(seen, design.builder.head(name), name, HEAD_SCOPE, "HeadPod")


def _delete_heads(seen: Observation) -> Iterator[Write]:
    """A head that has ended, and any head besides the one that is longest of use."""
    if HEAD_SCOPE in seen.unsettled:
        return
    live = [pod for pod in seen.heads if not pod.metadata.terminating]
    kept = min(live, key=_age_of_use, default=None)
    for pod in live:
        reason = unhealthy_reason(pod)
        if reason is None and pod is not kept:
            reason = "a cluster has one head"
        if reason is not None:
            yield _delete(seen, pod, HEAD_SCOPE, "HeadPod", reason)


def _age_of_use(head: Pod) -> tuple[bool, bool, str, str]:
    meta = head.metadata
    unhealthy = unhealthy_reason(head) is not None
    return unhealthy, not is_ready(head), meta.creation_timestamp or "", meta.name


def _create_workers(seen: Observation, design: Design, batch: int) -> Iterator[Write]:
    """The workers that are missing, as far as this plan's batch goes."""
    for group in design.spec.worker_group_specs:
        scope = worker_scope(group.group_name)
        names = seen.names.get(scope, ())[:batch]
        if scope in seen.unsettled or not names:
            continue
        batch -= len(names)
        present = seen.workers.get(group.group_name, ())
        places: list[Place | None] = [None] * len(names)
        if group.hosts == 1:
            places = [Place(index) for index in scale.free_indices(present, len(names))]
        for name, place in zip(names, places, strict=True):
            body = design.builder.worker(group, name, place)
            yield _create(seen, body, name, scope, "WorkerPod")


def _delete_workers(
    seen: Observation, design: Design, settings: ClusterSettings
) -> Iterator[Write]:
    """Named and ended workers always; surplus ones unless the autoscaler decides on them."""
    may_shrink = not design.spec.autoscaling or settings.delete_unnamed
    for group in design.spec.worker_group_specs:
        scope = worker_scope(group.group_name)
        pods = seen.workers.get(group.group_name, ())
        if scope in seen.unsettled or not pods:
            continue
        wanted_hash = design.builder.worker_hash(group)
        victims = scale.victims(group, pods, wanted_hash=wanted_hash, may_shrink=may_shrink)
        for victim in victims:
            yield _delete(seen, victim.pod, scope, "WorkerPod", victim.reason)


def _delete_removed_groups(seen: Observation, design: Design) -> Iterator[Write]:
    """Workers of groups that are no longer in the specification; not those of no group at all."""
    known = {"", *(group.group_name for group in design.spec.worker_group_specs)}
    for group, pods in seen.workers.items():
        scope = worker_scope(group)
        if group in known or scope in seen.unsettled:
            continue
        for pod in scale.deletion_order(pods):
            if not pod.metadata.terminating:
                reason = f"group {group!r} is no longer in the specification"
                yield _delete(seen, pod, scope, "WorkerPod", reason)


def _delete_latecomers(seen: Observation, design: Design) -> Iterator[Write]:
    """Pods of a suspended cluster: creates that were still under way when it was suspended."""
    if is_true(seen.conditions, SUSPENDED) and design.spec.suspend is not False:
        yield from _delete_all(seen)


def _delete_all(seen: Observation) -> Iterator[Write]:
    """All pods, for a suspension."""
    for pod in seen.all_pods:
        group = (pod.metadata.labels or {}).get(labels.GROUP, "")
        scope = HEAD_SCOPE if is_head(pod) else worker_scope(group)
        if not pod.metadata.terminating and scope not in seen.unsettled:
            yield _delete(seen, pod, scope, "Pod", "the cluster is being suspended")


def _must_not_restart(seen: Observation) -> bool:
    """Whether a head that is gone takes the cluster with it: its driver lived in the head."""
    annotations = seen.cluster.metadata.annotations or {}
    return (
        not seen.heads
        and annotations.get(labels.DISABLE_HEAD_RESTART) == "true"
        and is_true(seen.conditions, PROVISIONED)
    )


def _create(seen: Observation, body: Mapping[str, Any], name: str, scope: str, what: str) -> Create:
    return Create(
        _pod(seen, name, scope),
        body,
        on_success=Event("Normal", f"Created{what}", "Create", f"Created pod {name}"),
        on_failure=Event(
            "Warning", f"FailedToCreate{what}", "Create", f"Failed to create pod {name}"
        ),
    )


def _delete(seen: Observation, pod: Pod, scope: str, what: str, reason: str) -> Delete:
    name = pod.metadata.name
    return Delete(
        _pod(seen, name, scope),
        pod.metadata.uid,
        on_success=Event(
            "Normal", f"Deleted{what}", "Delete", f"Deleted pod {name} because {reason}"
        ),
        on_failure=Event(
            "Warning", f"FailedToDelete{what}", "Delete", f"Failed to delete pod {name}"
        ),
    )


def _pod(seen: Observation, name: str, scope: str) -> Target:
    return Target(PODS, seen.cluster.metadata.namespace, name, scope)


def _stages(*stages: list[Write] | Iterator[Write]) -> tuple[tuple[Write, ...], ...]:
    return tuple(filter(None, (tuple(stage) for stage in stages)))
