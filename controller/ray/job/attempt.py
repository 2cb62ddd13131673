"""An attempt of a RayJob: its cluster, submission and PodGroup, and the writes that make them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.conditions import failed_alive, others_alive, own_end, time_of
from controller.apimachinery.custom_object import mapping
from controller.apimachinery.patches import difference
from controller.kube.resources import JOBS, PODS, SERVICES
from controller.ray.api import labels
from controller.ray.api.batch_schedulers import VOLCANO
from controller.ray.api.raycluster import RAYCLUSTERS, ClusterSpec, RayCluster
from controller.ray.api.rayjob import RAYJOBS, JobSpec, RayJob, SubmissionMode
from controller.ray.children import create_child, repair_child
from controller.ray.children.child_cluster import child_cluster
from controller.ray.children.scheduling_groups import (
    NO_GROUPS,
    ObservedGroups,
    observe_group,
    volcano_group,
)
from controller.ray.children.services import stable_head_service
from controller.ray.diagnosis.pod import ending
from controller.ray.diagnosis.writes import created_cluster
from controller.ray.job.facts import Deadlines, State, SubmitterFact
from controller.ray.job.observation import (
    CLUSTER_SCOPE,
    SERVICE_SCOPE,
    SUBMITTER_SCOPE,
    JobObservation,
)
from controller.ray.job.submitter import (
    SubmissionTarget,
    default_container,
    marks_of_job,
    submitter_job,
    submitter_pod,
    submitting_container,
    with_sidecar,
)
from controller.ray.pods import hashes
from controller.ray.pods.gang import GangSize, gang_size
from controller.ray.pods.hashes import changed_fields, digest, field_digests
from controller.ray.settings import RaySettings
from controller.runtime.kind import CacheReader
from controller.runtime.plan import Create, Delete, Event, MergePatch, Target, Write

# The RayCluster that an attempt runs on.

Body = dict[str, Any]


def cluster_body(job: RayJob, spec: JobSpec, name: str, job_id: str, settings: RaySettings) -> Body:
    """Return the RayCluster to create.

    Args:
        job: the RayJob that will own it.
        spec: its valid specification, with a cluster of its own.
        name: name of the cluster.
        job_id: submission id of the attempt; SidecarMode needs it.
        settings: settings of the RayJob controller.
    """
    mode, annotations = spec.submission_mode, dict[str, str]()
    if mode is SubmissionMode.SIDECAR:
        annotations[labels.DISABLE_HEAD_RESTART] = "true"
        cluster_spec = with_sidecar(spec, name, job_id, settings)
    else:
        cluster_spec = copy.deepcopy(spec.ray_cluster_spec or {})
    body = child_cluster(
        RAYJOBS,
        job.metadata,
        name,
        cluster_spec,
        own_labels={labels.SUBMISSION_MODE: mode.value},
        own_annotations=annotations,
    )
    if mode is SubmissionMode.K8S_JOB and settings.batch_scheduler is not None:
        parsed = msgspec.convert(cluster_spec, ClusterSpec)
        marks_of_job(job, spec, parsed, "", settings).mark(body["metadata"])
    return body


# Detects changes of `spec.rayClusterSpec`, which reach the next attempt only.
#
# A condition reports them; KubeRay only logs them. The cluster carries a digest of its source,
# because defaults, the autoscaler and deletion rules change its specification.


def digest_of(spec: JobSpec) -> str:
    """Return a digest of the cluster's specification."""
    return digest(spec.ray_cluster_spec)


def is_outdated(seen: JobObservation) -> bool:
    """Return whether the attempt's cluster was created from another specification."""
    if seen.cluster is None or not seen.owns_cluster:
        return False
    created_from = (seen.cluster.metadata.annotations or {}).get(labels.MADE_FROM)
    return hashes.is_outdated(created_from, digest_of(seen.spec))


# Detects changes of the fields that a job is submitted with, which reach the next attempt only.
#
# The RayJob carries digests of them from just before its submission. A condition reports the
# change, where KubeRay is silent.

_FIELDS: Final = (
    "clusterSelector",
    "entrypoint",
    "entrypointNumCpus",
    "entrypointNumGpus",
    "entrypointResources",
    "jobId",
    "metadata",
    "runtimeEnvYAML",
    "submissionMode",
    "submitterConfig",
    "submitterPodTemplate",
)


def changed_after_submission(seen: JobObservation) -> list[str]:
    """Return the fields that have changed since the present submission, sorted."""
    recorded = seen.submitted[1] if seen.is_recorded else None
    return sorted(changed_fields(recorded, _present(seen)))


def _present(seen: JobObservation) -> dict[str, Any]:
    spec = mapping(seen.job.spec)
    return {name: spec[name] for name in _FIELDS if spec.get(name) is not None}


# Writes that create, change and delete an attempt's cluster, submitter and head service.
#
# The reasons of events are KubeRay's.

OTHERS_MAY_END: Final = timedelta(seconds=20)
"""Time for which other containers may outlive a submitter before its pod is ended."""


SUBMITTER_PATIENCE: Final = timedelta(seconds=10)
"""Time after a failure in which a submitter may print the rest of the log."""


def create_cluster(seen: JobObservation) -> Iterator[Write]:
    """Create the attempt's cluster under its stored name, unless the job selects a cluster."""
    spec = seen.spec
    if seen.cluster is not None or seen.foreign_cluster or spec.selected_cluster:
        return
    if CLUSTER_SCOPE in seen.pending_scopes:
        return
    name = seen.cluster_name
    body = cluster_body(seen.job, spec, name, seen.job_id, seen.settings)
    body["metadata"].setdefault("annotations", {})[labels.MADE_FROM] = digest_of(spec)
    again = bool(seen.status.get("rayClusterStatus"))
    created = created_cluster(seen.job.metadata, name, again=again)
    yield Create(_target(seen, name, CLUSTER_SCOPE), body, on_success=created)


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


def create_submitter(seen: JobObservation) -> Iterator[Write]:
    """Create the submitter Job, unless Ray already has the job."""
    if seen.mode is not SubmissionMode.K8S_JOB or seen.submitter.fact is not SubmitterFact.ABSENT:
        return
    if seen.submitter_job is not None or SUBMITTER_SCOPE in seen.pending_scopes:
        return
    if seen.info is not None or seen.result is not None or seen.status.get("jobStatus"):
        return
    if seen.cluster is None or seen.cluster_spec is None or seen.head is None:
        return
    to = SubmissionTarget(
        seen.cluster.metadata.name, seen.cluster_spec, seen.head.address, seen.job_id
    )
    body = submitter_job(seen.job, seen.spec, to, seen.settings)
    name: str = body["metadata"]["name"]
    target = Target(JOBS, seen.job.metadata.namespace, name, SUBMITTER_SCOPE)
    yield Create(target, body, on_success=_created("RayJobSubmitter", name))


def stop_submitter_retries(seen: JobObservation) -> Iterator[Write]:
    """Stop retries of a failed submitter once Ray has reported how the job ended."""
    job = seen.submitter_job
    if job is None or seen.submitter.fact is not SubmitterFact.ACTIVE or seen.result is None:
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
    if job is None or seen.submitter.fact is not SubmitterFact.ACTIVE or seen.result:
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


def reconcile_head_service(seen: JobObservation) -> Iterator[Write]:
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
        domain=seen.settings.cluster_domain,
        cluster_ip=seen.settings.head_cluster_ip_service,
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
    return _record_incarnation(seen, seen.head.id)


def forget_head(seen: JobObservation) -> MergePatch:
    """Record that the former head was lost before the job could be submitted: the next gets it."""
    return _record_incarnation(seen, "")


def _record_incarnation(seen: JobObservation, incarnation: str) -> MergePatch:
    stamps = {labels.RUNS_ON: f"{seen.cluster_name}/{incarnation}"}
    if not seen.is_recorded:
        stamps[labels.SUBMITTED] = f"{seen.job_id} {field_digests(_present(seen))}"
    return _record(seen, stamps)


def record_disruption(seen: JobObservation) -> MergePatch | None:
    """Record that a disruption takes the recorded head, before its pod is gone."""
    is_known = seen.disruption == seen.recorded_disruption
    if is_known or not seen.disruption or seen.spec.disruption_backoff_limit <= 0:
        return None
    uid = seen.recorded_head.partition("/")[0]
    return _record(seen, {labels.DISRUPTED: f"{uid}/{seen.disruption}"})


def _record(seen: JobObservation, annotations: dict[str, str]) -> MergePatch:
    meta = seen.job.metadata
    return MergePatch(
        Target(RAYJOBS, meta.namespace, meta.name, scope="head"),
        meta.uid,
        {"metadata": {"annotations": annotations}},
        resource_version=meta.resource_version,
    )


def _target(seen: JobObservation, name: str, scope: str) -> Target:
    return Target(RAYCLUSTERS, seen.job.metadata.namespace, name, scope)


def _created(what: str, name: str) -> Event:
    return Event("Normal", f"Created{what}", "Create", f"Created {name}")


# The Volcano PodGroup of a RayJob: the cluster's pods, and room for the submitter.
#
# It is made before the cluster. An attempt that has ended gives back its place in the queue: the
# group shrinks to what is left of the cluster, as in KubeRay.


def observe_job_group(seen: JobObservation, reads: CacheReader) -> ObservedGroups:
    """Observe the group of a RayJob with a cluster of its own."""
    spec = seen.spec
    is_ours = seen.settings.batch_scheduler is VOLCANO and not spec.selected_cluster
    if not is_ours or seen.problem is not None or seen.job.metadata.terminating:
        return NO_GROUPS
    size = _size(seen)
    if size is None:
        return NO_GROUPS
    found = observe_group(volcano_group(RAYJOBS, seen.job.metadata, size), seen.job.metadata, reads)
    return found if seen.state.has_attempt else replace(NO_GROUPS, drifted=found.drifted)


def sync_group(seen: JobObservation, now: datetime) -> Iterator[Write]:
    """Make the group, or give it the size that it should have now."""
    namespace = seen.job.metadata.namespace
    for child in seen.groups.absent:
        if child.scope not in seen.pending_scopes:
            yield create_child(namespace, child, now)
    for drift in seen.groups.drifted:
        write = repair_child(namespace, drift, now)
        if write is None or drift.child.scope in seen.pending_scopes:
            continue
        if seen.state.has_attempt:
            yield write
        else:
            name = seen.job.metadata.name
            note = f"Cleaned up batch scheduler resources of RayJob {name}"
            yield replace(
                write, on_success=Event("Normal", "BatchSchedulerCleanedUp", "Cleanup", note)
            )


def awaits_group(seen: JobObservation) -> bool:
    """Return whether the cluster must not be created yet."""
    children = (*seen.groups.absent, *(drift.child for drift in seen.groups.drifted))
    unknown = any(child.scope in seen.pending_scopes for child in children)
    return seen.groups.hold_up or unknown


def _size(seen: JobObservation) -> GangSize | None:
    """Return the size that the group should have; None while it does not matter."""
    if seen.state in {State.SUSPENDING, State.SUSPENDED, State.RETRYING}:
        return GangSize()
    gone = seen.cluster is None or seen.cluster.metadata.terminating
    live = None if gone else seen.cluster_spec  # an edit of the job reaches the next attempt only
    if seen.state.terminal:
        return GangSize() if live is None else gang_size(live, least=True)
    if not seen.state.has_attempt:
        return None
    cluster = live or msgspec.convert(seen.spec.ray_cluster_spec or {}, ClusterSpec)
    return gang_size(cluster, _reserved(seen.spec, cluster, live), least=True)


def _reserved(
    spec: JobSpec, cluster: ClusterSpec, live: ClusterSpec | None
) -> list[Mapping[str, Any]]:
    """Return the containers of the submitter; as a sidecar it is a part of the live cluster.

    It counts in no number of members: it waits for the cluster, which must not wait for it.
    """
    if spec.submission_mode is SubmissionMode.K8S_JOB:
        return submitter_pod(spec, cluster)["containers"]
    is_sidecar = spec.submission_mode is SubmissionMode.SIDECAR
    return [default_container(cluster)] if is_sidecar and live is None else []
