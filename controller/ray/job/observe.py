"""Gathers what a RayJob's plan depends on, from caches and dashboards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.custom_object import SpecificationMemo, mapping, status_of
from controller.apimachinery.metadata import is_owned_by, owner_reference, short_child_name
from controller.apimachinery.validation import Problem
from controller.kube.objects import Job, KubeObject, ObjectMeta, Pod
from controller.kube.resources import JOBS, PODS, SERVICES
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS, ClusterSpec, RayCluster
from controller.ray.api.rayjob import RAYJOBS, JobSpec, RayJob
from controller.ray.api.validation.job import validate_job_status
from controller.ray.children.child_cluster import child_cluster_name, unused_moment
from controller.ray.children.services import stable_head_service_name
from controller.ray.dashboard.commands import CommandDone, Dashboards
from controller.ray.dashboard.probes import JobProbe
from controller.ray.diagnosis.crash_log import log_to_read, with_log_tail
from controller.ray.diagnosis.writes import refused_creates
from controller.ray.head import (
    OUR_JOBS,
    RAY_PODS,
    find_ended_head,
    find_head,
    head_keys,
    is_gcs_fault_tolerant,
)
from controller.ray.job.attempt import observe_job_group
from controller.ray.job.dashboard import STOP_OCCASIONS, stop_command_id, submit_command_id
from controller.ray.job.facts import State
from controller.ray.job.observation import (
    CLUSTER_SCOPE,
    SUBMITTER_SCOPE,
    JobObservation,
)
from controller.ray.job.submitter import observe_submitter, submitter_name
from controller.ray.settings import RaySettings
from controller.runtime.definitions import DefinitionReader, UnknownFieldFinder
from controller.runtime.kind import CacheReader, Owned, References, owned_by
from controller.runtime.plan import Target

# The objects whose events enqueue a RayJob, and the indexes that find them.

SUBMITTER_PODS: Final = "submitter of"
"""Index of submitter pods by the key of their RayJob."""

CLUSTER_INDEX: Final = "cluster"
"""Index of RayJobs by the key of the RayCluster that their attempt runs on.

Owner references do not suffice: the RayJob does not own a selected cluster, and a head pod is owned
by its cluster.
"""


def submitter_keys(pod: Pod) -> Sequence[str]:
    """Index by `SUBMITTER_PODS`; yield the key of the pod's RayJob."""
    found = pod.metadata.labels or {}
    job = found.get(labels.ORIGIN_NAME)
    is_submitter = found.get(labels.NODE_TYPE) == labels.SUBMITTER
    return (f"{pod.metadata.namespace}/{job}",) if job and is_submitter else ()


def cluster_keys(job: RayJob) -> Sequence[str]:
    """Index by `CLUSTER_INDEX`; yield the key of the cluster in the status."""
    name = mapping(job.status).get("rayClusterName")
    return (f"{job.metadata.namespace}/{name}",) if name and isinstance(name, str) else ()


def _own_key(obj: KubeObject) -> Sequence[str]:
    return (obj.metadata.key,)


WATCHES: Final[tuple[Owned[Any], ...]] = (
    Owned(RAYCLUSTERS, references=References(CLUSTER_INDEX, cluster_keys, _own_key)),
    Owned(
        PODS,
        label_selector=RAY_PODS.label_selector,
        indexes={**RAY_PODS.indexes, SUBMITTER_PODS: submitter_keys},
        also_enqueues=submitter_keys,
        references=References(CLUSTER_INDEX, cluster_keys, head_keys),
    ),
    Owned(SERVICES),
    Owned(JOBS, label_selector=OUR_JOBS),
)


class JobSources(Struct, frozen=True):
    """The sources of an observation besides the caches."""

    job_spec_of: SpecificationMemo[RayJob, tuple[JobSpec, Problem | None]]
    cluster_spec_of: Callable[[RayCluster], ClusterSpec | None]
    unknown_fields_of: UnknownFieldFinder
    read_definition: DefinitionReader
    dashboards: Dashboards
    settings: RaySettings


def observe_job(key: str, reads: CacheReader, sources: JobSources) -> JobObservation | None:
    """Read the RayJob `namespace/name` and what belongs to it; None if it does not exist."""
    job = sources.job_spec_of.present(key, reads.get(RAYJOBS, key))
    if job is None:
        return None
    meta, status = job.metadata, status_of(job)
    spec, problem = sources.job_spec_of(job)
    state = State.of(status.get("jobDeploymentStatus", ""))
    service = reads.get(SERVICES, f"{meta.namespace}/{stable_head_service_name(meta)}")
    seen = JobObservation(
        job,
        spec,
        status,
        state,
        problem or validate_job_status(spec, status.get("jobDeploymentStatus", "")),
        service=service
        if service is not None and is_owned_by(service.metadata, meta.uid)
        else None,
        pending_scopes=reads.record(meta.uid).pending_scopes,
        unknown_fields=sources.unknown_fields_of(job, reads),
        clock_jumped_at=reads.clock_jumped_at,
        clock_steady_since=reads.clock_steady_since,
        settings=sources.settings,
        definition=sources.read_definition(reads, job),
    )
    seen = _with_next_names(seen, reads) if state is State.NEW else seen
    seen = _with_cluster(seen, reads, sources)
    seen = _with_submitter(seen, reads, sources)
    seen = _with_groups(seen, reads)
    return _with_ray(seen, sources.dashboards)


def _with_next_names(seen: JobObservation, reads: CacheReader) -> JobObservation:
    """Return the observation with the names of the next attempt, in KubeRay's forms.

    They are computed, so that a repeated create or submission finds the object of the first, from a
    revision at which only one attempt can start.
    """
    meta = seen.job.metadata
    used = [each.get("rayClusterName") for each in seen.status.get("attempts", ())]
    attempt = unused_moment(meta, used, reads)
    return replace(
        seen,
        next_cluster=child_cluster_name(meta, attempt),
        next_submission_id=generated_submission_id(meta, attempt),
    )


def generated_submission_id(job: ObjectMeta, attempt: str) -> str:
    """Return the submission id of an attempt for which `spec.jobId` sets none."""
    return short_child_name(job, "submission", attempt)


def _with_cluster(seen: JobObservation, reads: CacheReader, sources: JobSources) -> JobObservation:
    """Return the observation with the cluster of the attempt, its head, and earlier clusters."""
    cluster, foreign = _cluster(seen.job, seen.cluster_name, seen.spec, seen.problem, reads)
    spec = sources.cluster_spec_of(cluster) if cluster is not None else None
    head, ended, fault_tolerant = None, None, False
    if cluster is not None and spec is not None:
        fault_tolerant = is_gcs_fault_tolerant(cluster, spec)
        head = find_head(cluster, spec, reads, domain=sources.settings.cluster_domain)
        ended = find_ended_head(cluster, reads) if head is None else None
    pods = (pod for pod in (ended, head and head.pod) if pod is not None)
    log = log_to_read(pods, of_ready=True)
    text = reads.record(seen.job.metadata.uid).log_tail(log) if log is not None else None
    owned = owned_by(reads, RAYCLUSTERS, seen.job.metadata)
    return replace(
        seen,
        cluster=cluster,
        cluster_spec=spec,
        foreign_cluster=foreign,
        stale_clusters=tuple(each for each in owned if each.metadata.name != seen.cluster_name),
        head=head and replace(head, pod=with_log_tail(head.pod, log, text)),
        ended_head=ended and with_log_tail(ended, log, text),
        head_log=log if text is None else None,
        gcs_fault_tolerant=fault_tolerant,
    )


def _with_submitter(
    seen: JobObservation, reads: CacheReader, sources: JobSources
) -> JobObservation:
    """Return the observation with the submitter, its pods and its log."""
    meta = seen.job.metadata
    key, record = f"{meta.namespace}/{submitter_name(meta)}", reads.record(meta.uid)
    found = reads.get(JOBS, key)
    job = found if found is not None and is_owned_by(found.metadata, meta.uid) else None
    pods = _submitter_pods(key, job, reads)
    submitter = observe_submitter(seen.mode, job, pods, seen.head, sources.settings.feature_gates)
    return replace(
        seen,
        submitter=submitter,
        submitter_job=job,
        submitter_pods=pods,
        foreign_submitter=(found is not None and job is None)
        or record.has_name_conflict(JOBS, key),
        failed_create=record.failed_create(job.metadata.uid) if job is not None else None,
        log=record.log_tail(submitter.log) if submitter.log is not None else None,
    )


def _with_groups(seen: JobObservation, reads: CacheReader) -> JobObservation:
    """Return the observation with the PodGroup of the job, and all creates that were refused."""
    groups, meta = observe_job_group(seen, reads), seen.job.metadata
    targets = (
        Target(RAYCLUSTERS, meta.namespace, seen.cluster_name, CLUSTER_SCOPE),
        Target(JOBS, meta.namespace, submitter_name(meta), SUBMITTER_SCOPE),
        *(Target(each.resource, meta.namespace, each.name, each.scope) for each in groups.absent),
    )
    refused = refused_creates(reads.record(meta.uid), targets, owner_reference(RAYJOBS, meta))
    return replace(seen, groups=groups, refused_creates=refused)


def _submitter_pods(key: str, job: Job | None, reads: CacheReader) -> tuple[Pod, ...]:
    """Return the pods of the submitter's Job, not those of others with its labels.

    Without the Job, they are those that its deletion has left to the garbage collector.
    """
    found = reads.by_index(PODS, SUBMITTER_PODS, key)
    if job is not None:
        return tuple(pod for pod in found if is_owned_by(pod.metadata, job.metadata.uid))
    name = key.partition("/")[2]
    return tuple(pod for pod in found if _is_of_job(pod, name))


def _is_of_job(pod: Pod, name: str) -> bool:
    owners = pod.metadata.owner_references
    return any(each.controller and (each.kind, each.name) == (JOBS.kind, name) for each in owners)


def _with_ray(seen: JobObservation, dashboards: Dashboards) -> JobObservation:
    """Return the observation with what Ray reports and what became of the commands."""
    if seen.head is None:
        return seen
    head, job_id = seen.head.dashboard, seen.job_id
    stops = [dashboards.outcome(head, stop_command_id(job_id, each)) for each in STOP_OCCASIONS]
    ended = [each for each in stops if each is not None]
    confirmed = (each for each in ended if isinstance(each, CommandDone))
    return replace(
        seen,
        answer=dashboards.observation(head, JobProbe(job_id)) if job_id else None,
        submit_outcome=dashboards.outcome(head, submit_command_id(job_id)),
        stop_outcome=next(confirmed, ended[0] if ended else None),
    )


def _cluster(
    job: RayJob, name: str, spec: JobSpec, problem: Problem | None, reads: CacheReader
) -> tuple[RayCluster | None, bool]:
    """Return the cluster of the attempt, and whether another owner has the name."""
    if not name:
        return None, False
    key = f"{job.metadata.namespace}/{name}"
    cluster = reads.get(RAYCLUSTERS, key)
    if cluster is None:
        return None, reads.record(job.metadata.uid).has_name_conflict(RAYCLUSTERS, key)
    owned = is_owned_by(cluster.metadata, job.metadata.uid)
    if owned or spec.selected_cluster == name or problem is not None:
        return cluster, False
    return None, True
