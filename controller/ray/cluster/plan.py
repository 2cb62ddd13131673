"""What to do about a RayCluster: read `plan_cluster` from top to bottom.

Pure: the plan follows from the observation, the settings and the time alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.apimachinery.conditions import READY, find_condition, is_true
from controller.apimachinery.custom_object import status_of
from controller.ray.api.ray_object import is_managed_elsewhere
from controller.ray.cluster.children.writes import (
    child_events,
    create_children,
    repair_children,
    repairs_wait,
)
from controller.ray.cluster.deletion.finalization import change_finalizer, finalize
from controller.ray.cluster.heads import create_head, delete_heads, must_not_restart
from controller.ray.cluster.observation import DesiredCluster
from controller.ray.cluster.pod_writes import pod_target
from controller.ray.cluster.status.conditions import SUSPENDED, SUSPENDING
from controller.ray.cluster.status.status import cluster_status, refusal_status
from controller.ray.cluster.suspension import delete_all_pods, delete_latecomers, every_pod
from controller.ray.cluster.upgrade.recreate import delete_outdated, must_recreate, restamp_head
from controller.ray.cluster.workers.missing_pods import find_missing_pods
from controller.ray.cluster.workers.writes import (
    create_workers,
    delete_removed_groups,
    delete_workers,
)
from controller.ray.head.identity import HEAD_SCOPE
from controller.runtime.reconcile.plan import NOTHING, Event, Lookup, Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from controller.apimachinery.problem import Problem
    from controller.ray.cluster.observation import ClusterObservation
    from controller.ray.settings import ClusterSettings
    from controller.runtime.reconcile.plan import StatusPatch, Write

BLOCKED_RETRY = 30.0
"""Seconds until a name that is taken or a pod that cannot be read is looked at again: nobody need
tell us when it has gone."""


def plan_cluster(seen: ClusterObservation, settings: ClusterSettings, now: datetime) -> Plan:
    """The plan that brings the cluster nearer to its specification."""
    if is_managed_elsewhere(seen.cluster):
        return finalize(seen, settings, now) or NOTHING  # nobody else knows our finalizer
    if seen.cluster.metadata.terminating:
        return _deleted(seen, settings, now)
    if not isinstance(seen.desired, DesiredCluster):
        return _refuse(seen, seen.desired, now)
    status = cluster_status(seen, seen.desired, (), now)
    if is_true(seen.conditions, SUSPENDING):
        return _suspend(seen, status)
    if seen.lost_head is not None:
        return Plan(lookups=(Lookup(pod_target(seen, seen.lost_head, HEAD_SCOPE)),))
    plan = _build(seen, seen.desired, settings, status)
    commit = change_finalizer(seen, seen.desired, settings)
    return replace(
        plan,
        commit=commit,
        independent=() if plan.lookups else tuple(_repairs(seen, seen.desired, now)),
        events=(*_warnings(seen, seen.desired), *child_events(seen)),
        requeue_after=BLOCKED_RETRY if _is_hindered(seen, now) else plan.requeue_after,
    )


def _deleted(seen: ClusterObservation, settings: ClusterSettings, now: datetime) -> Plan:
    """Do what our finalizer is for; the garbage collector follows the owner references."""
    plan = finalize(seen, settings, now) or Plan()
    if plan.commit is not None or not isinstance(seen.desired, DesiredCluster):
        return plan
    return replace(plan, status=cluster_status(seen, seen.desired, (), now))


def _suspend(seen: ClusterObservation, status: StatusPatch) -> Plan:
    """Delete all pods; before the status says that none is left, make sure of it."""
    if not seen.may_have_pods and not seen.pods_listed:
        return Plan(lookups=(every_pod(seen.cluster),))
    return Plan(stages=_stages(delete_all_pods(seen)), status=status)


def _build(
    seen: ClusterObservation, design: DesiredCluster, settings: ClusterSettings, status: StatusPatch
) -> Plan:
    """Make what is missing and delete what is too much."""
    parts, bindings = create_children(seen, design)
    if seen.children.block_pods or seen.unreadable:
        return Plan(stages=_stages(parts, bindings), status=status, requeue_after=BLOCKED_RETRY)
    if design.spec.suspend or is_true(seen.conditions, SUSPENDED):
        return Plan(
            stages=_stages([*parts, *delete_latecomers(seen, design)], bindings), status=status
        )
    if must_recreate(seen, design):
        if not seen.pods_listed:
            return Plan(lookups=(every_pod(seen.cluster),))
        return Plan(stages=_stages(parts, bindings, *delete_outdated(seen)), status=status)
    if must_not_restart(seen):
        return Plan(stages=_stages(parts, bindings), status=status)
    missing = find_missing_pods(seen, design, batch=settings.batch)
    head = list(create_head(seen, design, missing))
    deletions = [
        *delete_heads(seen),
        *delete_workers(seen, design, settings),
        *delete_removed_groups(seen, design),
    ]
    workers, *hosts = create_workers(seen, design, missing)
    if head:  # a quota that is too small must not be spent on workers without a head
        stages = _stages(parts, bindings, [*head, *deletions], workers, *hosts)
    else:
        stages = _stages(parts, bindings, [*deletions, *workers], *hosts)
    return Plan(stages=stages, status=status)


def _is_hindered(seen: ClusterObservation, now: datetime) -> bool:
    return bool(seen.children.notes) or repairs_wait(seen, now)


def _repairs(seen: ClusterObservation, design: DesiredCluster, now: datetime) -> Iterator[Write]:
    """What is put right whatever becomes of the pods."""
    yield from restamp_head(seen, design)
    yield from repair_children(seen, design, now)


def _refuse(seen: ClusterObservation, problem: Problem, now: datetime) -> Plan:
    """Say what is wrong on the object, once as an event, and touch nothing."""
    ready = find_condition(seen.conditions, READY) or {}
    said = (ready.get("message"), ready.get("observedGeneration"))
    is_new = said != (str(problem), seen.cluster.metadata.generation)
    event = Event("Warning", problem.reason, "Validate", str(problem))
    return Plan(status=refusal_status(seen, problem, now), events=(event,) if is_new else ())


def _warnings(seen: ClusterObservation, design: DesiredCluster) -> Iterator[Event]:
    """What is odd about the specification, once a generation."""
    if status_of(seen.cluster).get("observedGeneration") != seen.cluster.metadata.generation:
        for warning in design.warnings:
            yield Event("Warning", "InvalidRayClusterSpec", "Validate", warning)


def _stages(*stages: Iterable[Write]) -> tuple[tuple[Write, ...], ...]:
    return tuple(filter(None, (tuple(stage) for stage in stages)))
