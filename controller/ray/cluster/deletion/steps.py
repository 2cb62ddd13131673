"""The steps of the deletion of a cluster with state in Redis: `step_of` is the whole table.

A Job that runs once removes the state, after the last writer has ended. Every step ends when its
condition is met or at the deadline, whichever is first.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import parse_rfc3339, rfc3339
from controller.apimachinery.ownership import ownership_text
from controller.apimachinery.problem import Problem
from controller.kube.resources import JOBS, PODS
from controller.ray.api import labels
from controller.ray.cluster.deletion.redis_cleanup import (
    REFUSED_POD_REMEDIES,
    cleanup_job_name,
    is_cleanup_job_of,
    knows_redis,
)
from controller.ray.cluster.observed.cleanup import Cleanup
from controller.ray.head.identity import HEAD_SCOPE
from controller.ray.pods.features.fault_tolerance import RedisStorage, state_storage
from controller.runtime.kind import NAMESPACE_TERMINATING, owned_by
from controller.runtime.plan import LiveList
from controller.runtime.refused_pods import cause_of_missing_pod

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.api.raycluster import RayCluster
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.runtime.kind import CacheReader

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
    job = reads.get(JOBS, key)
    is_ours = job is not None and is_cleanup_job_of(job, meta.uid)
    return Cleanup(
        job=job if is_ours else None,
        pods=tuple(owned_by(reads, PODS, job.metadata)) if job is not None and is_ours else (),
        has_name_conflict=not is_ours and (job is not None or reads.has_name_conflict(JOBS, key)),
        refusal=reads.create_error(JOBS, key),
        failed_create=reads.failed_create(job.metadata.uid, meta.uid) if job is not None else None,
        heads_listed=reads.has_listed(every_head(cluster), meta.uid),
    )


def every_head(cluster: RayCluster) -> LiveList:
    """Return a live list of all head pods with the cluster's label, whatever their owner."""
    meta = cluster.metadata
    selector = f"{labels.CLUSTER}={meta.name},{labels.NODE_TYPE}={labels.HEAD}"
    return LiveList(PODS, meta.namespace, selector)


def step_of(seen: ClusterObservation, now: datetime, *, enabled: bool) -> DeletionStep:
    """Return the next step of a deleted cluster with our finalizer: the first that applies.

    `enabled` is whether the administrator has enabled the cleanup of Redis.
    """
    cleanup = seen.cleanup
    table = (
        (DeletionStep.SKIP, cleanup.job is None and bool(reason_to_skip(seen, enabled=enabled))),
        (DeletionStep.FINISHED, bool(cleanup.outcome)),
        (DeletionStep.OVERDUE, now >= deadline_of(seen.cluster)),
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


def reason_to_skip(seen: ClusterObservation, *, enabled: bool) -> str:
    """Return why no Job is created, empty if one is."""
    if not enabled:
        return "ENABLE_GCS_FT_REDIS_CLEANUP is false"
    if isinstance(seen.desired, Problem):
        return f"the specification is not valid ({seen.desired})"
    if not keeps_state_in_redis(seen.cluster, seen.desired):
        return "the specification no longer names Redis as the backend of fault tolerance"
    if not knows_redis(seen.desired):
        return "the head has no RAY_REDIS_ADDRESS"
    refusal = seen.cleanup.refusal
    if refusal is not None and refusal.reason == NAMESPACE_TERMINATING:
        return "the namespace is being deleted"
    return ""


def possible_writer(seen: ClusterObservation) -> str:
    """Return a text about a writer that may still change Redis; empty if there is none."""
    if seen.heads:
        return f"head pod {seen.heads[0].metadata.name}"
    if seen.foreign_heads or seen.unreadable:
        return f"a pod that may be its head ({[*seen.foreign_heads, *seen.unreadable][0]})"
    return "a head pod whose creation was not answered" if HEAD_SCOPE in seen.pending_scopes else ""


def waiting_for(seen: ClusterObservation) -> str:
    """Return a sentence about what a deleted cluster waits for."""
    meta = seen.cluster.metadata
    if labels.REDIS_CLEANUP_FINALIZER in meta.finalizers:
        what = _redis_cleanup(seen)
        told = f"being deleted; waiting for {what}, until {rfc3339(deadline_of(seen.cluster))}"
        return ": ".join(filter(None, (told, why_no_pod(seen.cleanup))))
    if meta.finalizers:
        return f"being deleted; held by the finalizers {', '.join(meta.finalizers)}"
    return "being deleted"


def _redis_cleanup(seen: ClusterObservation) -> str:
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
