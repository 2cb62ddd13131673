"""The deletion of a cluster: the clean-up of its Redis first, its pods, then the finalizer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from msgspec.structs import replace

from controller.apimachinery.conditions import parse_rfc3339, rfc3339
from controller.apimachinery.metadata import ownership_text
from controller.kube.resources import JOBS, PODS
from controller.ray.api import labels
from controller.ray.api.pod_state import is_head
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.cluster.observation import (
    AnyCluster,
    Cleanup,
    ClusterObservation,
    DesiredCluster,
    InvalidCluster,
)
from controller.ray.cluster.pods import delete_pod, pod_target
from controller.ray.cluster.redis_cleanup import (
    REFUSED_POD_REMEDIES,
    cleanup_job,
    cleanup_job_name,
    is_cleanup_job_of,
    knows_redis,
    state_in_redis,
)
from controller.ray.diagnosis.pod import ending
from controller.ray.head import HEAD_SCOPE
from controller.ray.pods.fault_tolerance import RedisStorage, state_storage
from controller.runtime.kind import NAMESPACE_TERMINATING, CacheReader, owned_by
from controller.runtime.plan import Create, Event, LiveList, Lookup, MergePatch, Plan, Target, Write
from controller.runtime.reasons import cause_of_missing_pod, events_of, next_look
from controller.runtime.status import add_finalizer, remove_finalizer

# The steps of the deletion of a cluster with state in Redis: `step_of` is the whole table.
#
# A Job that runs once removes the state, after the last writer has ended. Every step ends when its
# condition is met or at the deadline, whichever is first.

CLEANUP_SCOPE: Final = "redis-cleanup"
DEFAULT_TIMEOUT: Final = 300
"""Seconds from the deletion until the finalizer is removed whatever is missing."""

_SECONDS: Final = re.compile(r"\+?[0-9]{1,9}", re.ASCII)


class DeletionStep(Enum):
    """The next step of a deleted cluster with our finalizer."""

    SKIP = "nothing can or must be cleaned up: let go"
    FINISHED = "the Job has ended, well or not: let go"
    OVERDUE = "the deadline has passed: let go"
    FIND_HEAD = "look whether there is a head that the cache does not show"
    STOP_HEAD = "delete the pods; wait until no head is left that could write"
    CLEAN_UP = "make the Job"
    AWAIT_JOB = "wait until the Job has ended"


def observe_cleanup(cluster: RayCluster, reads: CacheReader) -> Cleanup:
    """Observe the cleanup of this cluster; nothing is observed while it is not deleted."""
    meta = cluster.metadata
    if not meta.terminating:
        return Cleanup()
    key = f"{meta.namespace}/{cleanup_job_name(meta.name)}"
    job, record = reads.get(JOBS, key), reads.record(meta.uid)
    is_ours = job is not None and is_cleanup_job_of(job, meta.uid)
    return Cleanup(
        job=job if is_ours else None,
        pods=tuple(owned_by(reads, PODS, job.metadata)) if job is not None and is_ours else (),
        has_name_conflict=not is_ours and (job is not None or record.has_name_conflict(JOBS, key)),
        refusal=record.create_error(JOBS, key),
        failed_create=record.failed_create(job.metadata.uid) if job is not None else None,
        heads_listed=record.has_listed(every_head(cluster)),
    )


def every_head(cluster: RayCluster) -> LiveList:
    """Return a live list of all head pods with the cluster's label, whatever their owner."""
    meta = cluster.metadata
    selector = f"{labels.CLUSTER}={meta.name},{labels.NODE_TYPE}={labels.HEAD}"
    return LiveList(PODS, meta.namespace, selector)


def step_of(seen: AnyCluster) -> DeletionStep:
    """Return the next step of a deleted cluster with our finalizer: the first that applies."""
    cleanup = seen.cleanup
    table = (
        (DeletionStep.SKIP, cleanup.job is None and bool(reason_to_skip(seen))),
        (DeletionStep.FINISHED, cleanup.end is not None),
        (DeletionStep.OVERDUE, seen.now >= deadline_of(seen.cluster)),
        (DeletionStep.FIND_HEAD, seen.lost_head is not None),
        (DeletionStep.STOP_HEAD, bool(possible_writer(seen))),
        (DeletionStep.AWAIT_JOB, cleanup.job is not None or cleanup.has_name_conflict),
        (DeletionStep.AWAIT_JOB, CLEANUP_SCOPE in seen.pending_scopes),
        (DeletionStep.FIND_HEAD, not cleanup.heads_listed),
    )
    return next((step for step, holds in table if holds), DeletionStep.CLEAN_UP)


def keeps_state_in_redis(cluster: RayCluster, desired: DesiredCluster) -> bool:
    """Return whether Redis is the backend of the cluster's fault tolerance."""
    return isinstance(state_storage(cluster, desired.spec), RedisStorage)


def reason_to_skip(seen: AnyCluster) -> str:
    """Return why no Job is created, empty if one is."""
    if not seen.settings.redis_cleanup:
        return "ENABLE_GCS_FT_REDIS_CLEANUP is false"
    if isinstance(seen, InvalidCluster):
        return f"the specification is not valid ({seen.problem})"
    if not keeps_state_in_redis(seen.cluster, seen.desired):
        return "the specification no longer names Redis as the backend of fault tolerance"
    if not knows_redis(seen.desired):
        return "the head has no RAY_REDIS_ADDRESS"
    refusal = seen.cleanup.refusal
    if refusal is not None and refusal.reason == NAMESPACE_TERMINATING:
        return "the namespace is being deleted"
    return ""


def possible_writer(seen: AnyCluster) -> str:
    """Return a text about a writer that may still change Redis; empty if there is none."""
    if seen.heads:
        return f"head pod {seen.heads[0].metadata.name}"
    if seen.foreign_heads or seen.unreadable:
        return f"a pod that may be its head ({[*seen.foreign_heads, *seen.unreadable][0]})"
    return "a head pod whose creation was not answered" if HEAD_SCOPE in seen.pending_scopes else ""


def waiting_for(seen: AnyCluster) -> str:
    """Return a sentence about what a deleted cluster waits for."""
    meta = seen.cluster.metadata
    if labels.REDIS_CLEANUP_FINALIZER in meta.finalizers:
        what = _redis_cleanup(seen)
        waiting = f"being deleted; waiting for {what}, until {rfc3339(deadline_of(seen.cluster))}"
        return ": ".join(filter(None, (waiting, why_no_pod(seen.cleanup))))
    if meta.finalizers:
        return f"being deleted; held by the finalizers {', '.join(meta.finalizers)}"
    return "being deleted"


def _redis_cleanup(seen: AnyCluster) -> str:
    writer = possible_writer(seen)
    name = cleanup_job_name(seen.cluster.metadata.name)
    if writer:
        return f"{writer} to go, so that its state can be removed from Redis"
    if seen.cleanup.has_name_conflict:
        return f"Job {name} to go, which {ownership_text(None)}"
    if seen.cleanup.job is None and seen.cleanup.refusal is not None:
        return f"Job {name}, which cannot be created: {seen.cleanup.refusal.message}"
    if seen.cleanup.job is not None and seen.cleanup.job.spec.suspend:
        return f"Job {name} to remove its state from Redis, which is suspended (spec.suspend)"
    return f"Job {name} to remove its state from Redis"


def why_no_pod(cleanup: Cleanup) -> str:
    """Return a sentence about the pod that the Job cannot create; empty if none is known."""
    if cleanup.job is None or not cleanup.lacks_pod:
        return ""
    meta = cleanup.job.metadata
    cause = cause_of_missing_pod(JOBS, meta, cleanup.failed_create, REFUSED_POD_REMEDIES)
    return cause[1] if cause else ""


def deadline_of(cluster: RayCluster) -> datetime:
    """Return the time at which the finalizer is removed whatever is missing.

    Raises:
        ValueError: the cluster is not being deleted.
    """
    meta = cluster.metadata
    given = (meta.annotations or {}).get(labels.DELETION_TIMEOUT, "")
    seconds = int(given) if _SECONDS.fullmatch(given) else 0
    begun = parse_rfc3339(meta.deletion_timestamp or "")
    return begun + timedelta(seconds=seconds or DEFAULT_TIMEOUT)


# The finalizer that keeps a deleted cluster until its state is removed from Redis.
#
# It is set before the first pod can write to Redis. After the deletion only its presence counts,
# whatever the specification then says. Finalizers of others stay unchanged.

FOREGROUND: Final = "foregroundDeletion"
"""Finalizer of the garbage collector, which deletes all owned objects before their owner."""


def change_finalizer(seen: ClusterObservation) -> MergePatch | None:
    """Add or remove the finalizer of a cluster that is not deleted."""
    meta, target = seen.cluster.metadata, _cluster(seen)
    if seen.settings.redis_cleanup and keeps_state_in_redis(seen.cluster, seen.desired):
        return add_finalizer(target, meta, labels.REDIS_CLEANUP_FINALIZER)
    if labels.REDIS_CLEANUP_FINALIZER not in meta.finalizers:
        return None
    event = _skipped(seen, reason_to_skip(seen))
    return remove_finalizer(target, meta, labels.REDIS_CLEANUP_FINALIZER, on_success=event)


def finalize(seen: AnyCluster) -> Plan | None:
    """Return the next step of a deleted cluster with our finalizer; None if it does not have it."""
    meta = seen.cluster.metadata
    if not meta.terminating or labels.REDIS_CLEANUP_FINALIZER not in meta.finalizers:
        return None
    step = step_of(seen)
    wait = _seconds_left(seen)
    match step:
        case DeletionStep.SKIP:
            return _let_go(seen, _skipped(seen, reason_to_skip(seen)))
        case DeletionStep.FINISHED:
            return _let_go(seen, _job_failed(seen))
        case DeletionStep.OVERDUE:
            return _let_go(seen, _overdue(seen))
        case DeletionStep.FIND_HEAD:
            lookup: Lookup | LiveList = every_head(seen.cluster)
            if seen.lost_head is not None:
                lookup = Lookup(pod_target(seen, seen.lost_head, HEAD_SCOPE))
            return Plan(lookups=(lookup,), requeue_after=wait)
        case DeletionStep.STOP_HEAD | DeletionStep.CLEAN_UP | DeletionStep.AWAIT_JOB:
            stages = _stages(seen, clean_up=step is DeletionStep.CLEAN_UP)
            return _with_events(seen, Plan(stages=stages, requeue_after=wait))


def _with_events(seen: AnyCluster, plan: Plan) -> Plan:
    """Return the plan, or the look-up of the events of a Job that has had no pod for a while."""
    job = seen.cleanup.job
    if job is None or not seen.cleanup.lacks_pod:
        return plan
    look = next_look(job.metadata, seen.cleanup.failed_create)
    if look is None:
        return plan
    if look <= seen.now:
        return Plan(lookups=(events_of(job.metadata, seen.now),), requeue_after=plan.requeue_after)
    return replace(plan, requeue_after=min(_seconds_left(seen), (look - seen.now).total_seconds()))


def _stages(seen: AnyCluster, *, clean_up: bool) -> tuple[tuple[Write, ...], ...]:
    """Delete every pod; the Job does not wait for workers, unless it was refused before."""
    deletions = tuple(_delete_pods(seen))
    job = tuple(_create_job(seen)) if clean_up else ()
    both = (job, deletions) if seen.cleanup.refusal is None else (deletions, job)
    return tuple(stage for stage in both if stage)


def _delete_pods(seen: AnyCluster) -> Iterator[Write]:
    """Delete all pods by uid, the heads first."""
    for pod in seen.all_pods:
        if not pod.metadata.terminating:
            what = "HeadPod" if is_head(pod) else "WorkerPod"
            yield delete_pod(seen, pod, what=what, reason="its cluster is deleted")


def _create_job(seen: AnyCluster) -> Iterator[Write]:
    if isinstance(seen, InvalidCluster):
        return  # such a cluster is skipped
    meta = seen.cluster.metadata
    name, namespace = cleanup_job_name(meta.name), meta.namespace
    owned = FOREGROUND not in meta.finalizers
    yield Create(
        Target(JOBS, namespace, name, CLEANUP_SCOPE),
        cleanup_job(seen.desired, seen.settings, owned=owned),
        on_success=Event(
            "Normal",
            "CreatedRedisCleanupJob",
            "Create",
            f"Created Redis cleanup Job {namespace}/{name}",
        ),
    )


def _let_go(seen: AnyCluster, event: Event | None) -> Plan:
    meta = seen.cluster.metadata
    finalizer = labels.REDIS_CLEANUP_FINALIZER
    return Plan(commit=remove_finalizer(_cluster(seen), meta, finalizer, on_success=event))


def _skipped(seen: AnyCluster, reason: str) -> Event:
    where = state_in_redis(seen.cluster, seen.heads)
    note = f"The cluster's state, if it has any in Redis, is not removed because {reason}: {where}"
    return Event("Warning", "SkippedRedisCleanup", "Cleanup", note)


def _job_failed(seen: AnyCluster) -> Event | None:
    end = seen.cleanup.end
    if end is None or end.succeeded:
        return None
    name = cleanup_job_name(seen.cluster.metadata.name)
    where, last = state_in_redis(seen.cluster, seen.heads), end.last
    why = why_no_pod(seen.cleanup) or (f"it {ending(last)}" if last is not None else "")
    note = f"Job {name} has failed: remove the cluster's state from Redis yourself: {where}"
    note = f"{note}; {why}" if why else note
    return Event("Warning", "RedisCleanupFailed", "Cleanup", note)


def _overdue(seen: AnyCluster) -> Event:
    """Return the event, named as in KubeRay, that reports what was missing at the deadline."""
    where = state_in_redis(seen.cluster, seen.heads)
    note = (
        f"Let go at the deadline; the cluster's state, {where}, is left and must be removed by "
        f"hand. It was {waiting_for(seen)}"
    )
    return Event("Warning", "ForceDeletedStuckCluster", "Cleanup", note)


def _seconds_left(seen: AnyCluster) -> float:
    return (deadline_of(seen.cluster) - seen.now).total_seconds()


def _cluster(seen: AnyCluster) -> Target:
    meta = seen.cluster.metadata
    return Target(RAYCLUSTERS, meta.namespace, meta.name, "finalizer")
