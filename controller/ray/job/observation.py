"""The input of a RayJob's plan: the RayJob and what belongs to it at one moment, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from controller.apimachinery.conditions import job_end, template_containers, time_of
from controller.apimachinery.names import short_child_name
from controller.apimachinery.object_schema import ObjectSchema
from controller.apimachinery.ownership import is_owned_by
from controller.apimachinery.problem import Problem
from controller.kube.objects import Container, ContainerStatus, Job, ObjectMeta, Pod, Service
from controller.ray.api import labels
from controller.ray.api.definitions.crds import job_fields
from controller.ray.api.feature_gates import SIDECAR_SUBMITTER_RESTART, FeatureGates
from controller.ray.api.names import SUBMITTER
from controller.ray.api.pod_state import SUBMISSION_ID, condition, container_with, is_unstarted
from controller.ray.api.raycluster import ClusterSpec, RayCluster
from controller.ray.api.rayjob import RAYJOBS, JobSpec, RayJob, SubmissionMode
from controller.ray.children.scheduling_groups import NO_GROUPS, ObservedGroups
from controller.ray.dashboard import CommandOutcome, ProbeObservation
from controller.ray.diagnosis.pod import exit_code, last_words, saying
from controller.ray.head import HeadIncarnation
from controller.ray.job.facts import State, SubmitterFact
from controller.ray.settings import RaySettings
from controller.runtime.kind import FailedCreate, LogText
from controller.runtime.plan import Event, Failure, LogTail, Plan
from controller.runtime.reconcile import definitions
from controller.runtime.reconcile.definitions import (
    EVENT_INTERVAL,
    DefinitionReader,
    InstalledDefinition,
)

CLUSTER_SCOPE: Final = "cluster"
SUBMITTER_SCOPE: Final = "submitter"
SERVICE_SCOPE: Final = "head service"


@dataclass(frozen=True, slots=True)
class AttemptNames:
    """Names of the next attempt."""

    cluster: str
    submission_id: str


@dataclass(frozen=True, slots=True)
class SubmitterState:
    """The state of an attempt's submitter.

    Attributes:
        fact: the fact for transitions.
        ended: time of its end; None while it runs.
        failure: description of its failure; empty if it did not fail.
        last_words: what its container said to the kubelet at the end: `, saying: ...`.
        log: request that reads the end of its log; None if it has none.
        unstarted: whether its Job has had no pod so far.
        never_ran: whether no container of its Job that submits has been started so far.
        outlived: whether others keep its pod alive, so that its Job never finishes.
    """

    fact: SubmitterFact = SubmitterFact.NONE
    ended: datetime | None = None
    failure: str = ""
    last_words: str = ""
    log: LogTail | None = None
    unstarted: bool = False
    never_ran: bool = False
    outlived: bool = False


NO_SUBMITTER: Final = SubmitterState()


@dataclass(frozen=True, slots=True)
class JobObservation:
    """A RayJob and what belongs to it.

    Attributes:
        job: the RayJob.
        spec: its specification; of an invalid one, the fields that can be read.
        problem: what makes the specification invalid; None if it is valid.
        status: its status without fields of the wrong type.
        state: the state that the status names.
        names: names of the next attempt; None unless an attempt may start.
        cluster: the RayCluster of the attempt.
        cluster_spec: the specification of `cluster`; None if there is none that can be read.
        foreign_cluster: whether a RayCluster of another owner has the name of the attempt's.
        stale_clusters: RayClusters of this RayJob that do not belong to the present attempt.
        head: the running head of `cluster`.
        ended_head: the head of `cluster` that has ended, if none is running.
        head_log: the log that says why the head ended, to be read if the attempt fails; None if it
            was read, or if there is none.
        gcs_fault_tolerant: whether a new head of `cluster` may still know the job.
        submitter: the state of the attempt's submitter.
        submitter_job: the Kubernetes Job that submits, of this attempt or an earlier one.
        submitter_pods: the pods of `submitter_job`.
        foreign_submitter: whether a Job of another owner has the submitter's name.
        service: the RayJob's own head service.
        answer: the dashboard's report for the submission id; None before the first probe.
        submit_outcome: the result of the operator's own submission.
        stop_outcome: the result of stopping the job in Ray; the one that confirms it, of several.
        log: the last lines of the submitter's log, once they have been read.
        failed_create: what the events of `submitter_job` say about pods that were refused.
        pending_scopes: scopes in which the outcome of a write is unknown.
        settings: the administrator's settings.
        definition: the fields that the installed definition of RayJobs lacks.
        unknown_fields: a sentence that names the unknown fields of its pod templates; may be empty.
        refused_creates: earlier creates that the API server has refused.
        groups: the PodGroup of the job's pods, if a batch scheduler needs one.
        clock_jumped_at: the time of day after its last jump, None if there was none.
        clock_steady_since: time since which the clock has not jumped; None if unknown.
    """

    job: RayJob
    spec: JobSpec
    status: Mapping[str, Any]
    state: State
    problem: Problem | None = None
    names: AttemptNames | None = None
    cluster: RayCluster | None = None
    cluster_spec: ClusterSpec | None = None
    foreign_cluster: bool = False
    stale_clusters: tuple[RayCluster, ...] = ()
    head: HeadIncarnation | None = None
    ended_head: Pod | None = None
    head_log: LogTail | None = None
    gcs_fault_tolerant: bool = False
    submitter: SubmitterState = NO_SUBMITTER
    submitter_job: Job | None = None
    submitter_pods: tuple[Pod, ...] = ()
    foreign_submitter: bool = False
    service: Service | None = None
    answer: ProbeObservation | None = None
    submit_outcome: CommandOutcome | None = None
    stop_outcome: CommandOutcome | None = None
    log: LogText | None = None
    failed_create: FailedCreate | None = None
    pending_scopes: frozenset[str] = frozenset()
    refused_creates: tuple[Failure, ...] = ()
    unknown_fields: str = ""
    groups: ObservedGroups = NO_GROUPS
    clock_jumped_at: datetime | None = None
    clock_steady_since: datetime | None = None
    settings: RaySettings = field(default_factory=RaySettings)
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)

    @property
    def job_id(self) -> str:
        """The stored submission id; empty if there is none yet."""
        return self.status.get("jobId", "")

    @property
    def cluster_name(self) -> str:
        """The stored name of the attempt's cluster; empty if there is none yet."""
        return self.status.get("rayClusterName", "")

    @property
    def owns_cluster(self) -> bool:
        """True if `cluster` was created for this RayJob."""
        return self.cluster is not None and is_owned_by(
            self.cluster.metadata, self.job.metadata.uid
        )

    @property
    def recorded_head(self) -> str:
        """Id of the head recorded for this attempt; empty if none was recorded."""
        annotations = self.job.metadata.annotations or {}
        cluster, _, incarnation = annotations.get(labels.RUNS_ON, "").partition("/")
        submission = annotations.get(labels.SUBMITTED, "").partition(" ")[0]
        is_of_this = cluster == self.cluster_name and submission in {"", self.job_id}
        return incarnation if is_of_this else ""

    @property
    def awaits_other_head(self) -> bool:
        """Whether the recorded head was lost, certainly without the job, and no other is known."""
        annotations = self.job.metadata.annotations or {}
        submission = annotations.get(labels.SUBMITTED, "").partition(" ")[0]
        is_emptied = annotations.get(labels.RUNS_ON) == f"{self.cluster_name}/"
        return is_emptied and submission == self.job_id

    @property
    def disruption(self) -> str:
        """What has taken the recorded head away, in one word; empty if nothing has.

        What is announced may be called off as long as the pod is there.
        """
        uid = self.recorded_head.partition("/")[0]
        pods = (self.head.pod if self.head is not None else None, self.ended_head)
        for pod in pods:
            if pod is not None and uid and pod.metadata.uid == uid:
                target = condition(pod, "DisruptionTarget")
                if target is None or target.status != "True":
                    return ""
                return target.reason or target.type
        return self.recorded_disruption

    @property
    def recorded_disruption(self) -> str:
        """What was recorded about it when the pod was there."""
        record = (self.job.metadata.annotations or {}).get(labels.DISRUPTED, "")
        uid, _, reason = record.partition("/")
        return reason if uid and uid == self.recorded_head.partition("/")[0] else ""

    @property
    def mode(self) -> SubmissionMode | None:
        """The submission mode of the job; None if there is no mode of the given name."""
        return self.spec.submission_mode if self.spec.has_known_mode else None


# Fields on which a RayJob's planner relies: without them jobs would run again.
#
# A status without the attempt looks like that of a job which has yet to run. A specification
# without `suspend` may start, and one without a delay deletes the cluster at once. While the
# installed definition lacks such a field, the operator neither acts on a RayJob nor writes it, not
# even its conditions: the API server reads an object without the fields that its definition lacks,
# and any write would store it so. An object that is not written is complete again when the
# definition is.

STATUS_FIELDS: Final = (
    "jobDeploymentStatus",
    "rayClusterName",
    "jobId",
    "jobStatus",
    "startTime",
    "endTime",
    "dashboardURL",
    "failed",
)
"""Fields of the status that distinguish an attempt from one that has not begun."""


def relied_on(schema: ObjectSchema) -> Iterator[str]:
    """Yield the fields on which the planner relies."""
    yield from (f"status.{name}" for name in STATUS_FIELDS)
    yield from job_fields(schema, "spec")


def definition_reader() -> DefinitionReader:
    """Return a reader of what the installed definition of RayJobs lacks."""
    return DefinitionReader(
        RAYJOBS,
        relied_on,
        "RayJobs are left as they are, so that none is started, ended or deleted because of it",
    )


def leave_as_it_is(seen: JobObservation) -> Plan | None:
    """Return the plan that only reports missing fields; None if the RayJob is complete."""
    untouched = definitions.leave_as_it_is(seen.job, seen.definition)
    lost = "" if untouched is not None else lost_fields(seen)
    if not lost:
        return untouched
    event = Event("Warning", "StatusIncomplete", "Reconcile", lost)
    return Plan(events=(event,), requeue_after=EVENT_INTERVAL)


def is_left_as_it_is(seen: JobObservation) -> bool:
    """Return whether the status stays unchanged."""
    return not seen.job.metadata.terminating and leave_as_it_is(seen) is not None


def lost_fields(seen: JobObservation) -> str:
    """Return the fields that the status must have had, with the remedy; empty if none is missing.

    A definition may drop fields before its schema is published, or another client may write the
    object meanwhile.
    """
    lost = _lost(seen)
    if not lost:
        return ""
    return (
        f"status.{lost} is missing, although an attempt was made: its job might run twice, or "
        "its cluster be deleted. A definition of RayJobs may have dropped it, or another client "
        "removed it. Put it back (kubectl edit --subresource=status), or create the RayJob anew"
    )


def _lost(seen: JobObservation) -> str:
    leftovers = bool(seen.stale_clusters) or seen.submitter_job is not None
    has_begun = bool(seen.status.get("startTime"))
    required = {
        "jobDeploymentStatus": seen.state is not State.NEW
        or not (seen.cluster_name or (leftovers and not has_begun)),
        "rayClusterName": bool(seen.cluster_name)
        or not (_is_under_way(seen) or (seen.state.terminal and leftovers)),
        "startTime": has_begun
        or not (
            _is_under_way(seen) or (seen.state is State.VALIDATION_FAILED and seen.cluster_name)
        ),
        "jobId": bool(seen.job_id) or seen.state is not State.RUNNING,
    }
    return next((name for name, is_there in required.items() if not is_there), "")


def _is_under_way(seen: JobObservation) -> bool:
    return seen.state.has_attempt or seen.state in {State.SUSPENDING, State.RETRYING}


# Names of a RayJob's children, in KubeRay's forms but computed instead of random.
#
# The same attempt always has the same names, so a repeated create or submission finds the object of
# the first. Other attempts have other names.


def generated_submission_id(job: ObjectMeta, attempt: str) -> str:
    """Return the submission id of an attempt for which `spec.jobId` sets none."""
    return short_child_name(job, "submission", attempt)


def submitter_name(job: ObjectMeta) -> str:
    """Return the name of the submitter Job of all attempts; the previous Job must be gone."""
    return job.name


# The state of the submitter, which is a Job or a container in the head pod.
#
# The submitter submits the job and prints its log. Its exit code is not the job's result.


_RESTARTS: Final = 2
"""Restarts of the container in the head pod until it counts as failed (KubeRay)."""


def observe_submitter(
    mode: SubmissionMode | None,
    job: Job | None,
    pods: Sequence[Pod],
    head: HeadIncarnation | None,
    gates: FeatureGates,
) -> SubmitterState:
    """Return the state of the submitter; `job` is the Job that the RayJob owns, with its pods."""
    if mode is SubmissionMode.SIDECAR:
        return _container(head, restarts=gates.enabled(SIDECAR_SUBMITTER_RESTART))
    if job is not None:
        return _job(job, pods)
    if mode is SubmissionMode.K8S_JOB:
        return SubmitterState(SubmitterFact.ABSENT)
    return NO_SUBMITTER


def _job(job: Job, pods: Sequence[Pod]) -> SubmitterState:
    """Return the state by the container that submits; a terminating Job counts as absent."""
    meta, name = job.metadata, submitting_container(job)
    log = LogTail(meta.namespace, f"batch.kubernetes.io/controller-uid={meta.uid}", name)
    end = job_end(job, pods, (name,))
    if end is None:
        fact = SubmitterFact.ABSENT if meta.terminating else SubmitterFact.ACTIVE
        counts = job.status
        pod_ended = bool(counts.succeeded or counts.failed)
        waits = all(_has_not_started(pod, name) for pod in pods)
        return SubmitterState(
            fact,
            log=log,
            unstarted=not (pods or counts.active or pod_ended),
            never_ran=waits and not pod_ended,
        )
    if end.succeeded:
        return SubmitterState(SubmitterFact.SUCCEEDED, end.at, log=log, outlived=not end.finished)
    last = exit_code(end.last) if end.last else _removed(pods)
    why = "; ".join(filter(None, (last, end.reason)))
    words = last_words(end.last) if end.last else ""
    return SubmitterState(SubmitterFact.FAILED, end.at, why, words, log, outlived=not end.finished)


def _has_not_started(pod: Pod, container: str) -> bool:
    found = (each for each in pod.status.container_statuses if each.name == container)
    return is_unstarted(pod, next(found, None))


def _removed(pods: Sequence[Pod]) -> str:
    """Return why the kubelet ended a pod before its containers did; empty if it did not."""
    ends = [pod.status for pod in pods if pod.status.phase == "Failed" and pod.status.reason]
    return saying(ends[-1].reason, ends[-1].message) if ends else ""


def submitting_container(job: Job) -> str:
    """Return the name of the container that submits."""
    containers = msgspec.convert(template_containers(job), tuple[Container, ...])
    found = container_with(containers, SUBMISSION_ID)
    return found.name if found is not None else SUBMITTER


def _container(head: HeadIncarnation | None, *, restarts: bool) -> SubmitterState:
    if head is None:
        return SubmitterState(SubmitterFact.ABSENT)
    meta = head.pod.metadata
    cluster = (meta.labels or {}).get(labels.CLUSTER, "")
    log = LogTail(
        meta.namespace,
        f"{labels.CLUSTER}={cluster},{labels.NODE_TYPE}={labels.HEAD}",
        SUBMITTER,
    )
    for status in head.pod.status.container_statuses:
        if status.name == SUBMITTER:
            return _ended_container(status, log, restarts=restarts)
    return SubmitterState(SubmitterFact.ACTIVE, log=log)


def _ended_container(status: ContainerStatus, log: LogTail, *, restarts: bool) -> SubmitterState:
    end = status.state.terminated
    if end is not None and end.exit_code == 0:
        return SubmitterState(SubmitterFact.SUCCEEDED, time_of(end.finished_at), log=log)
    if restarts:
        end = end or status.last_state.terminated
        if end is None or status.restart_count < _RESTARTS:
            return SubmitterState(SubmitterFact.ACTIVE, log=log)
    if end is None:
        return SubmitterState(SubmitterFact.ACTIVE, log=log)
    at, words = time_of(end.finished_at), last_words(end)
    return SubmitterState(SubmitterFact.FAILED, at, exit_code(end), words, log)
