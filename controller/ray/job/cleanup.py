"""What is deleted after a RayJob has ended, when, and how the RayJob itself goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, cast

from msgspec import Struct

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import dig, mapping
from controller.ray.api import labels
from controller.ray.api.feature_gates import JOB_DELETION_POLICY
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.api.rayjob import (
    RAYJOBS,
    DeletionPolicy,
    DeletionRule,
    JobSpec,
)
from controller.ray.api.validation.deletion_strategy import stated_cases
from controller.ray.job.attempt import delete_cluster, delete_submitter
from controller.ray.job.dashboard import STOP_NOT_CONFIRMED, interests, stop, stop_remedy, stop_text
from controller.ray.job.facts import Deadlines
from controller.ray.job.observation import CLUSTER_SCOPE, JobObservation
from controller.ray.settings import RaySettings
from controller.runtime.plan import (
    NOTHING,
    Delete,
    Event,
    JsonPatch,
    MergePatch,
    Plan,
    Target,
    Write,
    stages_of,
)
from controller.runtime.status import add_finalizer, remove_finalizer

# The rules of deletion after a job's last attempt.
#
# They come from `deletionRules`, from the older `onSuccess` and `onFailure`, or from
# `shutdownAfterJobFinishes`.

_LEAST_FIRST: Final = (
    DeletionPolicy.NONE,
    DeletionPolicy.WORKERS,
    DeletionPolicy.CLUSTER,
    DeletionPolicy.SELF,
)
_extent: Final = _LEAST_FIRST.index


class FinishedJob(Struct, frozen=True):
    """The result of a job, and the time when it ended.

    Attributes:
        at: `status.endTime`.
        job_status: `status.jobStatus`, as Ray reported it; may be empty.
        deployment_status: `Complete` or `Failed`.
        deleted: the most that is deleted already.
    """

    at: datetime
    job_status: str
    deployment_status: str
    deleted: DeletionPolicy = DeletionPolicy.NONE


def deleted_of(cluster: RayCluster | None) -> DeletionPolicy:
    """Return what is deleted of a job's cluster; a terminating one counts as gone."""
    if cluster is None or cluster.metadata.terminating:
        return DeletionPolicy.CLUSTER
    suspended = all(dig(group, "suspend") is True for group in _groups(cluster))
    return DeletionPolicy.WORKERS if suspended else DeletionPolicy.NONE


DueDeletion: TypeAlias = tuple[DeletionPolicy | None, timedelta | None]
"""What is to be deleted now, and the time until the next deletion is due."""


def due_deletion(
    spec: JobSpec, ended: FinishedJob, now: datetime, settings: RaySettings
) -> DueDeletion:
    """Return the deletion that is due for a finished job, the most extensive of several."""
    due, pending = ended.deleted, list[timedelta]()
    for policy, seconds in _requested(spec, ended, settings):
        if _extent(policy) <= _extent(ended.deleted):
            continue
        remaining = ended.at + timedelta(seconds=seconds) - now
        if remaining > timedelta(0):
            pending.append(remaining)
        else:
            due = max(due, policy, key=_extent)
    return None if due is ended.deleted else due, min(pending, default=None)


def unmatched_end(spec: JobSpec, ended: FinishedJob, settings: RaySettings) -> str:
    """Return that no rule says what to delete after this end, and what to do; empty if one does."""
    strategy = spec.deletion_strategy
    if strategy is None or not settings.feature_gates.enabled(JOB_DELETION_POLICY):
        return ""
    if list(_requested(spec, ended, settings)):
        return ""
    remedy = "delete by hand what you do not need"
    if ended.deployment_status == "Failed":
        rule = "a rule with condition jobDeploymentStatus Failed for the next time"
        instead = (
            "" if strategy.deletion_rules else ", in deletionRules instead of the two policies"
        )
        remedy += f", and add {rule}{instead}"
    with_status = f"jobStatus {ended.job_status}" if ended.job_status else "no jobStatus"
    return (
        f"nothing of spec.deletionStrategy applies to jobDeploymentStatus "
        f"{ended.deployment_status} with {with_status}: it is about {stated_cases(strategy)}; "
        f"{remedy}"
    )


def worker_suspensions(cluster: RayCluster) -> Iterator[dict[str, Any]]:
    """Yield JSON patch operations that suspend all worker groups, and fail if groups have moved."""
    for position, group in enumerate(_groups(cluster)):
        if dig(group, "suspend") is not True:
            path = f"/spec/workerGroupSpecs/{position}"
            name = dig(group, "groupName")
            yield {"op": "test", "path": f"{path}/groupName", "value": name}
            yield {"op": "add", "path": f"{path}/suspend", "value": True}


def _requested(
    spec: JobSpec, ended: FinishedJob, settings: RaySettings
) -> Iterable[tuple[DeletionPolicy, int]]:
    """Return the requested deletions, each with its delay in seconds after the end."""
    strategy = spec.deletion_strategy
    if strategy is not None and settings.feature_gates.enabled(JOB_DELETION_POLICY):
        if strategy.deletion_rules:
            matching = (rule for rule in strategy.deletion_rules if _applies(rule, ended))
            return [(rule.policy, rule.condition.ttl_seconds) for rule in matching]
        outcomes = {"SUCCEEDED": strategy.on_success, "FAILED": strategy.on_failure}
        outcome = outcomes.get(ended.job_status)
        policy = outcome.policy if outcome is not None else None
        return [] if policy is None else [(policy, spec.ttl_seconds_after_finished)]
    if spec.shutdown_after_job_finishes and not spec.cluster_selector:
        delete_self = settings.delete_finished_jobs
        policy = DeletionPolicy.SELF if delete_self else DeletionPolicy.CLUSTER
        return [(policy, spec.ttl_seconds_after_finished)]
    return []


def _applies(rule: DeletionRule, ended: FinishedJob) -> bool:
    condition = rule.condition
    if condition.job_status is not None:
        return condition.job_status == ended.job_status
    return condition.job_deployment_status == ended.deployment_status


def _groups(cluster: RayCluster) -> list[Any]:
    groups = mapping(cluster.spec).get("workerGroupSpecs")
    return cast("list[Any]", groups) if isinstance(groups, list) else []


# The writes that the deletion rules ask for after the last attempt.

_FIELDS: Final = (
    "spec.deletionStrategy",
    "spec.shutdownAfterJobFinishes",
    "spec.ttlSecondsAfterFinished",
)
"""Fields that say what is deleted and when: what they say is not known while one is refused."""


def next_deletion(seen: JobObservation, deadlines: Deadlines) -> DueDeletion:
    """Return the object to delete now, and the time to check again."""
    if seen.problem is not None and seen.problem.concerns(*_FIELDS):
        return None, None
    return due_deletion(seen.spec, _finished(seen, deadlines), deadlines.now, seen.settings)


def unmatched_rules(seen: JobObservation, deadlines: Deadlines) -> str:
    """Return that no rule of deletion is about the way in which the job ended; empty if one is."""
    if not seen.state.terminal or (seen.problem is not None and seen.problem.concerns(*_FIELDS)):
        return ""
    text = unmatched_end(seen.spec, _finished(seen, deadlines), seen.settings)
    stays = f"cluster {seen.cluster_name} stays: " if seen.owns_cluster else ""
    return f"{stays}{text}" if text else ""


def _finished(seen: JobObservation, deadlines: Deadlines) -> FinishedJob:
    return FinishedJob(
        at=deadlines.counted_from(_end_of(seen) or deadlines.now),
        job_status=seen.status.get("jobStatus", ""),
        deployment_status=seen.state.value,
        deleted=deleted_of(seen.cluster if seen.owns_cluster else None),
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
            path = "/metadata/resourceVersion"
            version = {"op": "test", "path": path, "value": meta.resource_version}
            note = f"Suspended the workers of cluster {meta.name}"
            yield JsonPatch(
                Target(RAYCLUSTERS, meta.namespace, meta.name, CLUSTER_SCOPE),
                meta.uid,
                (version, *worker_suspensions(cluster)),
                on_success=Event("Normal", "UpdatedRayCluster", "Update", note),
            )
        case _:
            return


# The finalizer of RayJobs: it keeps a deleted RayJob until Ray confirms its job's end.
#
# The garbage collector deletes what the RayJob owns. On a selected cluster, which the RayJob does
# not own, only a stop in Ray ends the job.

LONGEST_HOLD: Final = timedelta(seconds=30)
"""Time after the deletion at which the finalizer is removed even if the job was not stopped."""


def finalizer_patch(seen: JobObservation) -> MergePatch | None:
    """Return the patch that adds the finalizer; None if it is there."""
    return add_finalizer(_target(seen), seen.job.metadata, labels.RAYJOB_FINALIZER)


def finalize(seen: JobObservation, deadlines: Deadlines) -> Plan:
    """Return the next step of a RayJob that is being deleted."""
    meta = seen.job.metadata
    if labels.RAYJOB_FINALIZER not in meta.finalizers:
        return NOTHING
    watched = interests(seen, deadlines)
    deleted_at = time_of(meta.deletion_timestamp)
    is_over = deadlines.waited(deleted_at, LONGEST_HOLD)
    if is_over or not seen.may_still_run:
        removal = remove_finalizer(
            _target(seen), meta, labels.RAYJOB_FINALIZER, on_success=_unconfirmed(seen)
        )
        return Plan(commit=removal, subscriptions=watched)
    return Plan(
        commands=stop(seen, (deleted_at or deadlines.now) + LONGEST_HOLD),
        subscriptions=watched,
        stages=stages_of(delete_submitter(seen)),
        requeue_after=deadlines.seconds_to_next,
    )


def _unconfirmed(seen: JobObservation) -> Event | None:
    """Return the event about a job that may go on without its RayJob; None if it cannot."""
    is_collected = seen.owns_cluster and "orphan" not in seen.job.metadata.finalizers
    if is_collected or not seen.may_still_run:
        return None
    return Event("Warning", STOP_NOT_CONFIRMED, "Delete", f"{stop_text(seen)}; {stop_remedy(seen)}")


def _target(seen: JobObservation) -> Target:
    return Target(RAYJOBS, seen.job.metadata.namespace, seen.job.metadata.name, scope="finalizer")
