"""Writes that create, change and delete an attempt's cluster, submitter and head service.

The reasons of events are KubeRay's.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import failed_alive, others_alive, own_end, time_of
from controller.apimachinery.patches import difference
from controller.kube.resources import JOBS, PODS, SERVICES
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS, SubmissionMode
from controller.ray.diagnosis.container import ending
from controller.ray.head.stable_service import stable_head_service
from controller.ray.job.attempt.cluster import cluster_body
from controller.ray.job.attempt.cluster_changes import digest_of
from controller.ray.job.attempt.submitted_fields import is_recorded, submission_record
from controller.ray.job.collect_facts import info_of, result_of
from controller.ray.job.observation import CLUSTER_SCOPE, SERVICE_SCOPE, SUBMITTER_SCOPE
from controller.ray.job.state_machine.facts import SubmitterFact
from controller.ray.job.submitter.job import SubmissionTarget, submitter_job
from controller.ray.job.submitter.state import submitting_container
from controller.runtime.plan import Create, Delete, Event, MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.raycluster import RayCluster
    from controller.ray.job.observation import JobObservation
    from controller.ray.job.settings import JobSettings
    from controller.ray.job.state_machine.deadlines import Deadlines
    from controller.runtime.plan import Write

OTHERS_MAY_END: Final = timedelta(seconds=20)
"""Time for which other containers may outlive a submitter before its pod is ended."""


SUBMITTER_PATIENCE: Final = timedelta(seconds=10)
"""Time after a failure in which a submitter may print the rest of the log."""


def create_cluster(seen: JobObservation, settings: JobSettings) -> Iterator[Write]:
    """Create the attempt's cluster under its stored name, unless the job selects a cluster."""
    spec = seen.spec
    if seen.cluster is not None or seen.foreign_cluster or spec.selected_cluster:
        return
    if CLUSTER_SCOPE in seen.pending_scopes:
        return
    name = seen.cluster_name
    body = cluster_body(seen.job, spec, name, seen.job_id, settings)
    body["metadata"].setdefault("annotations", {})[labels.MADE_FROM] = digest_of(spec)
    yield Create(_target(seen, name, CLUSTER_SCOPE), body, on_success=_created("RayCluster", name))


def delete_clusters(seen: JobObservation) -> Iterator[Write]:
    """Delete the clusters of this and earlier attempts, each by its uid."""
    mine = [seen.cluster] if seen.cluster is not None and seen.owns_cluster else []
    for cluster in (*mine, *seen.stale_clusters):
        yield from delete_cluster(seen, cluster)


def delete_stale_clusters(seen: JobObservation) -> Iterator[Write]:
    """Delete the clusters of earlier attempts."""
    for cluster in seen.stale_clusters:
        yield from delete_cluster(seen, cluster)


def delete_cluster(seen: JobObservation, cluster: RayCluster) -> Iterator[Write]:
    """Delete one cluster, unless it is terminating."""
    name = cluster.metadata.name
    if not cluster.metadata.terminating:
        yield Delete(
            _target(seen, name, CLUSTER_SCOPE),
            cluster.metadata.uid,
            on_success=Event("Normal", "DeletedRayCluster", "Delete", f"Deleted cluster {name}"),
        )


def create_submitter(seen: JobObservation, settings: JobSettings) -> Iterator[Write]:
    """Create the submitter Job, unless Ray already has the job."""
    if seen.mode is not SubmissionMode.K8S_JOB or seen.submitter.fact is not SubmitterFact.ABSENT:
        return
    if seen.submitter_job is not None or SUBMITTER_SCOPE in seen.pending_scopes:
        return
    if info_of(seen) is not None or result_of(seen) is not None or seen.status.get("jobStatus"):
        return
    if seen.cluster is None or seen.cluster_spec is None or seen.head is None:
        return
    to = SubmissionTarget(
        seen.cluster.metadata.name, seen.cluster_spec, seen.head.address, seen.job_id
    )
    body = submitter_job(seen.job, seen.spec, to, settings)
    name: str = body["metadata"]["name"]
    target = Target(JOBS, seen.job.metadata.namespace, name, SUBMITTER_SCOPE)
    yield Create(target, body, on_success=_created("RayJobSubmitter", name))


def stop_submitter_retries(seen: JobObservation) -> Iterator[Write]:
    """Stop retries of a failed submitter once Ray has reported how the job ended."""
    job = seen.submitter_job
    if job is None or seen.submitter.fact is not SubmitterFact.ACTIVE or result_of(seen) is None:
        return
    has_failed = job.status.failed or failed_alive(
        job, seen.submitter_pods, (submitting_container(job),)
    )
    if has_failed and job.spec.backoff_limit != 0:
        target = Target(JOBS, job.metadata.namespace, job.metadata.name, SUBMITTER_SCOPE)
        yield MergePatch(target, job.metadata.uid, {"spec": {"backoffLimit": 0}})


def end_failed_submitters(seen: JobObservation, deadlines: Deadlines) -> Iterator[Write]:
    """Delete a pod that others keep alive after its submitter has failed: the Job makes another."""
    job = seen.submitter_job
    if job is None or seen.submitter.fact is not SubmitterFact.ACTIVE or result_of(seen):
        return
    own = (submitting_container(job),)
    for pod in failed_alive(job, seen.submitter_pods, own):
        end, meta = own_end(pod, own), pod.metadata
        if end is None or not deadlines.waited(time_of(end.finished_at), OTHERS_MAY_END):
            continue
        note = (
            f"Deleted pod {meta.name}, so that its Job tries again: {own[0]} {ending(end)}, and "
            f"{', '.join(others_alive(pod, own))} kept the pod alive"
        )
        yield Delete(
            Target(PODS, meta.namespace, meta.name, SUBMITTER_SCOPE),
            meta.uid,
            on_success=Event("Normal", "DeletedPod", "Delete", note),
        )


def delete_outlived_submitter(seen: JobObservation, deadlines: Deadlines) -> Iterator[Write]:
    """Delete the Job of a submitter that has ended, if others keep its pod alive."""
    if seen.submitter.outlived and deadlines.waited(seen.submitter.ended, OTHERS_MAY_END):
        yield from delete_submitter(seen)


def delete_surviving_submitter(seen: JobObservation, deadlines: Deadlines) -> Iterator[Write]:
    """Delete, for a failed job, a submitter that could still submit it, or that does not end.

    One that only prints the log of a job that is being stopped may finish.
    """
    if seen.submitter.fact is not SubmitterFact.ACTIVE:
        return
    known = bool(seen.status.get("jobStatus"))
    here = seen.head is not None and seen.head.id == seen.recorded_head
    ended = time_of(seen.status.get("endTime"))
    if not (known and here) or deadlines.waited(ended, SUBMITTER_PATIENCE):
        yield from delete_submitter(seen)


def delete_submitter(seen: JobObservation) -> Iterator[Write]:
    """Delete the submitter Job with its pods."""
    job = seen.submitter_job
    if job is None or job.metadata.terminating:
        return
    name = job.metadata.name
    yield Delete(
        Target(JOBS, job.metadata.namespace, name, SUBMITTER_SCOPE),
        job.metadata.uid,
        propagation="Background",
        on_success=Event("Normal", "DeletedRayJobSubmitter", "Delete", f"Deleted Job {name}"),
    )


def reconcile_head_service(seen: JobObservation, settings: JobSettings) -> Iterator[Write]:
    """Point the job's own head service at the attempt's cluster, if the job owns it."""
    if not seen.owns_cluster or seen.cluster is None or seen.cluster_spec is None:
        return
    if SERVICE_SCOPE in seen.pending_scopes:
        return
    body = stable_head_service(
        RAYJOBS,
        seen.job.metadata,
        seen.cluster,
        seen.cluster_spec,
        () if seen.head is None else (seen.head.pod,),
        domain=settings.cluster_domain,
        cluster_ip=settings.head_cluster_ip_service,
    )
    name: str = body["metadata"]["name"]
    target = Target(SERVICES, seen.job.metadata.namespace, name, SERVICE_SCOPE)
    if seen.service is None:
        yield Create(target, body, on_success=_created("Service", name))
        return
    selector = seen.service.spec.selector or {}
    wanted = body["spec"]["selector"]
    patch = difference(selector, wanted | {key: None for key in selector if key not in wanted})
    if patch:
        yield MergePatch(
            target,
            seen.service.metadata.uid,
            {"spec": {"selector": patch}},
            on_success=Event("Normal", "UpdatedService", "Update", f"Updated Service {name}"),
        )


def record_head(seen: JobObservation) -> MergePatch | None:
    """Record the head that the attempt runs on, and what is submitted, before anything is."""
    if seen.head is None or seen.head.terminating or seen.head.id == seen.recorded_head:
        return None
    meta = seen.job.metadata
    stamps = {labels.RUNS_ON: f"{seen.cluster_name}/{seen.head.id}"}
    if not is_recorded(seen):
        stamps[labels.SUBMITTED] = submission_record(seen)
    return MergePatch(
        Target(RAYJOBS, meta.namespace, meta.name, scope="head"),
        meta.uid,
        {"metadata": {"annotations": stamps}},
        resource_version=meta.resource_version,
    )


def _target(seen: JobObservation, name: str, scope: str) -> Target:
    return Target(RAYCLUSTERS, seen.job.metadata.namespace, name, scope)


def _created(what: str, name: str) -> Event:
    return Event("Normal", f"Created{what}", "Create", f"Created {name}")
