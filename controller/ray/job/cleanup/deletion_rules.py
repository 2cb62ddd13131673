"""The rules of deletion after a job's last attempt.

They come from `deletionRules`, from the older `onSuccess` and `onFailure`, or from
`shutdownAfterJobFinishes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.ray.api.feature_gates import JOB_DELETION_POLICY
from controller.ray.api.rayjob import DeletionPolicy
from controller.ray.api.validation.deletion_strategy import stated_cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from controller.ray.api.raycluster import RayCluster
    from controller.ray.api.rayjob import DeletionRule, DeletionStrategy, JobSpec
    from controller.ray.job.settings import JobSettings

_LEAST_FIRST: Final = (
    DeletionPolicy.NONE,
    DeletionPolicy.WORKERS,
    DeletionPolicy.CLUSTER,
    DeletionPolicy.SELF,
)


class RemainingCluster(Enum):
    """The remains of the job's cluster."""

    ALL = "all"
    HEAD = "head"
    NOTHING = "nothing"

    @classmethod
    def of(cls, cluster: RayCluster | None) -> RemainingCluster:
        """Return the remains of `cluster`; a terminating one counts as gone."""
        if cluster is None or cluster.metadata.terminating:
            return cls.NOTHING
        suspended = (dig(group, "suspend") is True for group in _groups(cluster))
        return cls.HEAD if all(suspended) else cls.ALL


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """The result of a job, and the time when it ended.

    Attributes:
        at: `status.endTime`.
        job_status: `status.jobStatus`, as Ray reported it; may be empty.
        deployment_status: `Complete` or `Failed`.
        cluster: what is left of the cluster.
    """

    at: datetime
    job_status: str
    deployment_status: str
    cluster: RemainingCluster


@dataclass(frozen=True, slots=True)
class DueDeletion:
    """The deletion that is due.

    Attributes:
        action: the object to delete now; None for nothing, never `DeletionPolicy.NONE`.
        requeue_after: time until the next deletion is due; None for never.
    """

    action: DeletionPolicy | None = None
    requeue_after: timedelta | None = None


def due_deletion(
    spec: JobSpec, ended: FinishedJob, now: datetime, settings: JobSettings
) -> DueDeletion:
    """Return the deletion that is due for a finished job, the most extensive of several."""
    due: DeletionPolicy | None = None
    pending: list[timedelta] = []
    for policy, seconds in _requested(spec, ended, settings):
        if _is_done(policy, ended.cluster):
            continue
        remaining = ended.at + timedelta(seconds=seconds) - now
        if remaining > timedelta(0):
            pending.append(remaining)
        elif due is None or _LEAST_FIRST.index(policy) > _LEAST_FIRST.index(due):
            due = policy
    return DueDeletion(due, min(pending, default=None))


def unmatched_end(spec: JobSpec, ended: FinishedJob, settings: JobSettings) -> str:
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
    spec: JobSpec, ended: FinishedJob, settings: JobSettings
) -> Iterable[tuple[DeletionPolicy, int]]:
    """Return the requested deletions, each with its delay in seconds after the end."""
    strategy = spec.deletion_strategy
    if strategy is not None and settings.feature_gates.enabled(JOB_DELETION_POLICY):
        if strategy.deletion_rules:
            matching = (rule for rule in strategy.deletion_rules if _applies(rule, ended))
            return [(rule.policy, rule.condition.ttl_seconds) for rule in matching]
        policy = _legacy_policy(strategy, ended)
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


def _legacy_policy(strategy: DeletionStrategy, ended: FinishedJob) -> DeletionPolicy | None:
    outcomes = {"SUCCEEDED": strategy.on_success, "FAILED": strategy.on_failure}
    outcome = outcomes.get(ended.job_status)
    return None if outcome is None else outcome.policy


def _is_done(policy: DeletionPolicy, left: RemainingCluster) -> bool:
    if policy is DeletionPolicy.WORKERS:
        return left is not RemainingCluster.ALL
    if policy is DeletionPolicy.CLUSTER:
        return left is RemainingCluster.NOTHING
    return policy is DeletionPolicy.NONE


def _groups(cluster: RayCluster) -> list[Any]:
    groups = mapping(cluster.spec).get("workerGroupSpecs")
    return cast("list[Any]", groups) if isinstance(groups, list) else []
