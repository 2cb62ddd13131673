"""The finalizer that keeps a deleted cluster until its state is removed from Redis.

It is set before the first pod can write to Redis. After the deletion only its presence counts,
whatever the specification then says. Finalizers of others stay unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem
from controller.kube.resources import JOBS
from controller.ray.api import labels
from controller.ray.api.pod_state import is_head
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.cluster.deletion.redis_cleanup import (
    cleanup_job,
    cleanup_job_name,
    state_in_redis,
)
from controller.ray.cluster.deletion.steps import (
    CLEANUP_SCOPE,
    DeletionStep,
    deadline_of,
    every_head,
    keeps_state_in_redis,
    reason_to_skip,
    step_of,
    waiting_for,
    why_no_pod,
)
from controller.ray.cluster.pods.writes import delete_pod, pod_target
from controller.ray.head.identity import HEAD_SCOPE
from controller.runtime.plan import Create, Event, Lookup, MergePatch, Plan, Target
from controller.runtime.reconcile.finalizers import add_finalizer, remove_finalizer
from controller.runtime.refused_pods import events_of, next_look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.ray.settings import ClusterSettings
    from controller.runtime.plan import LiveList, Write


FOREGROUND: Final = "foregroundDeletion"
"""Finalizer of the garbage collector, which deletes all owned objects before their owner."""


def change_finalizer(
    seen: ClusterObservation, desired: DesiredCluster, settings: ClusterSettings
) -> MergePatch | None:
    """Add or remove the finalizer of a cluster that is not deleted."""
    meta, target = seen.cluster.metadata, _cluster(seen)
    if settings.redis_cleanup and keeps_state_in_redis(seen.cluster, desired):
        return add_finalizer(target, meta, labels.REDIS_CLEANUP_FINALIZER)
    if labels.REDIS_CLEANUP_FINALIZER not in meta.finalizers:
        return None
    event = _skipped(seen, reason_to_skip(seen, enabled=settings.redis_cleanup))
    return remove_finalizer(target, meta, labels.REDIS_CLEANUP_FINALIZER, on_success=event)


def finalize(seen: ClusterObservation, settings: ClusterSettings, now: datetime) -> Plan | None:
    """Return the next step of a deleted cluster with our finalizer; None if it does not have it."""
    meta = seen.cluster.metadata
    if not meta.terminating or labels.REDIS_CLEANUP_FINALIZER not in meta.finalizers:
        return None
    enabled = settings.redis_cleanup
    step = step_of(seen, now, enabled=enabled)
    wait = _seconds_left(seen, now)
    match step:
        case DeletionStep.SKIP:
            return _let_go(seen, _skipped(seen, reason_to_skip(seen, enabled=enabled)))
        case DeletionStep.FINISHED:
            return _let_go(seen, _job_failed(seen))
        case DeletionStep.OVERDUE:
            return _let_go(seen, _overdue(seen))
        case DeletionStep.FIND_HEAD:
            return Plan(lookups=(_find_head(seen),), requeue_after=wait)
        case DeletionStep.STOP_HEAD | DeletionStep.CLEAN_UP | DeletionStep.AWAIT_JOB:
            stages = _stages(seen, settings, clean_up=step is DeletionStep.CLEAN_UP)
            return _with_events(seen, Plan(stages=stages, requeue_after=wait), now)


def _with_events(seen: ClusterObservation, plan: Plan, now: datetime) -> Plan:
    """Return the plan, or the look-up of the events of a Job that has had no pod for a while."""
    job = seen.cleanup.job
    if job is None or not seen.cleanup.lacks_pod:
        return plan
    look = next_look(job.metadata, seen.cleanup.failed_create)
    if look is None:
        return plan
    if look <= now:
        return Plan(lookups=(events_of(job.metadata, now),), requeue_after=plan.requeue_after)
    return replace(plan, requeue_after=min(_seconds_left(seen, now), (look - now).total_seconds()))


def _find_head(seen: ClusterObservation) -> Lookup | LiveList:
    """Look up the head that the status names, or list all pods with a head's labels."""
    if seen.lost_head is None:
        return every_head(seen.cluster)
    return Lookup(pod_target(seen, seen.lost_head, HEAD_SCOPE))


def _stages(
    seen: ClusterObservation, settings: ClusterSettings, *, clean_up: bool
) -> tuple[tuple[Write, ...], ...]:
    """Delete every pod; the Job does not wait for workers, unless it was refused before."""
    deletions = tuple(_delete_pods(seen))
    job = tuple(_create_job(seen, settings)) if clean_up else ()
    both = (job, deletions) if seen.cleanup.refusal is None else (deletions, job)
    return tuple(stage for stage in both if stage)


def _delete_pods(seen: ClusterObservation) -> Iterator[Write]:
    """Delete all pods by uid, the heads first."""
    for pod in seen.all_pods:
        if not pod.metadata.terminating:
            what = "HeadPod" if is_head(pod) else "WorkerPod"
            yield delete_pod(seen, pod, what=what, reason="its cluster is deleted")


def _create_job(seen: ClusterObservation, settings: ClusterSettings) -> Iterator[Write]:
    if isinstance(seen.desired, Problem):
        return  # such a cluster is skipped
    meta = seen.cluster.metadata
    name, namespace = cleanup_job_name(meta.name), meta.namespace
    owned = FOREGROUND not in meta.finalizers
    yield Create(
        Target(JOBS, namespace, name, CLEANUP_SCOPE),
        cleanup_job(seen.desired, settings, owned=owned),
        on_success=Event(
            "Normal",
            "CreatedRedisCleanupJob",
            "Create",
            f"Created Redis cleanup Job {namespace}/{name}",
        ),
    )


def _let_go(seen: ClusterObservation, event: Event | None) -> Plan:
    meta = seen.cluster.metadata
    finalizer = labels.REDIS_CLEANUP_FINALIZER
    return Plan(commit=remove_finalizer(_cluster(seen), meta, finalizer, on_success=event))


def _skipped(seen: ClusterObservation, reason: str) -> Event:
    where = state_in_redis(seen.cluster, seen.heads)
    note = f"The cluster's state, if it has any in Redis, is not removed because {reason}: {where}"
    return Event("Warning", "SkippedRedisCleanup", "Cleanup", note)


def _job_failed(seen: ClusterObservation) -> Event | None:
    if seen.cleanup.outcome == "Complete":
        return None
    name = cleanup_job_name(seen.cluster.metadata.name)
    where = state_in_redis(seen.cluster, seen.heads)
    why = why_no_pod(seen.cleanup)
    note = f"Job {name} has failed: remove the cluster's state from Redis yourself: {where}"
    note = f"{note}; {why}" if why else note
    return Event("Warning", "RedisCleanupFailed", "Cleanup", note)


def _overdue(seen: ClusterObservation) -> Event:
    """Return the event, named as in KubeRay, that reports what was missing at the deadline."""
    where = state_in_redis(seen.cluster, seen.heads)
    note = (
        f"Let go at the deadline; the cluster's state, {where}, is left and must be removed by "
        f"hand. It was {waiting_for(seen)}"
    )
    return Event("Warning", "ForceDeletedStuckCluster", "Cleanup", note)


def _seconds_left(seen: ClusterObservation, now: datetime) -> float:
    return (deadline_of(seen.cluster) - now).total_seconds()


def _cluster(seen: ClusterObservation) -> Target:
    meta = seen.cluster.metadata
    return Target(RAYCLUSTERS, meta.namespace, meta.name, "finalizer")
