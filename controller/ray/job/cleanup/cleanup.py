"""The writes that the deletion rules ask for after the last attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import time_of
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS, DeletionPolicy
from controller.ray.job.attempt.writes import delete_cluster
from controller.ray.job.cleanup.deletion_rules import (
    DueDeletion,
    FinishedJob,
    RemainingCluster,
    due_deletion,
    unmatched_end,
    worker_suspensions,
)
from controller.ray.job.observation import CLUSTER_SCOPE
from controller.runtime.plan import Delete, Event, JsonPatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.ray.job.observation import JobObservation
    from controller.ray.job.settings import JobSettings
    from controller.ray.job.state_machine.deadlines import Deadlines
    from controller.runtime.plan import Write


_FIELDS: Final = (
    "spec.deletionStrategy",
    "spec.shutdownAfterJobFinishes",
    "spec.ttlSecondsAfterFinished",
)
"""Fields that say what is deleted and when: what they say is not known while one is refused."""


def next_deletion(seen: JobObservation, settings: JobSettings, deadlines: Deadlines) -> DueDeletion:
    """Return the object to delete now, and the time to check again."""
    if seen.problem is not None and seen.problem.concerns(*_FIELDS):
        return DueDeletion()
    return due_deletion(seen.spec, _finished(seen, deadlines), deadlines.now, settings)


def unmatched_rules(seen: JobObservation, settings: JobSettings, deadlines: Deadlines) -> str:
    """Return that no rule of deletion is about the way in which the job ended; empty if one is."""
    if not seen.state.terminal or (seen.problem is not None and seen.problem.concerns(*_FIELDS)):
        return ""
    text = unmatched_end(seen.spec, _finished(seen, deadlines), settings)
    stays = f"cluster {seen.cluster_name} stays: " if seen.owns_cluster else ""
    return f"{stays}{text}" if text else ""


def _finished(seen: JobObservation, deadlines: Deadlines) -> FinishedJob:
    return FinishedJob(
        at=deadlines.counted_from(_end_of(seen) or deadlines.now),
        job_status=seen.status.get("jobStatus", ""),
        deployment_status=seen.state.value,
        cluster=RemainingCluster.of(seen.cluster if seen.owns_cluster else None),
    )


def _end_of(seen: JobObservation) -> datetime | None:
    """Return the time when the job ended; an earlier one if that was not recorded."""
    times = (*map(seen.status.get, ("endTime", "startTime")), seen.job.metadata.creation_timestamp)
    return next(filter(None, map(time_of, times)), None)


def deletion_writes(seen: JobObservation, policy: DeletionPolicy | None) -> Iterator[Write]:
    """Yield the writes of a deletion that is due."""
    cluster = seen.cluster if seen.owns_cluster else None
    match policy:
        case DeletionPolicy.SELF:
            meta = seen.job.metadata
            target = Target(RAYJOBS, meta.namespace, meta.name, scope="self")
            yield Delete(target, meta.uid, propagation="Background")
        case DeletionPolicy.CLUSTER if cluster is not None:
            yield from delete_cluster(seen, cluster)
        case DeletionPolicy.WORKERS if cluster is not None:
            meta = cluster.metadata
            version = {
                "op": "test",
                "path": "/metadata/resourceVersion",
                "value": meta.resource_version,
            }
            note = f"Suspended the workers of cluster {meta.name}"
            yield JsonPatch(
                Target(RAYCLUSTERS, meta.namespace, meta.name, CLUSTER_SCOPE),
                meta.uid,
                (version, *worker_suspensions(cluster)),
                on_success=Event("Normal", "UpdatedRayCluster", "Update", note),
            )
        case _:
            return
