"""Everything that a RayJob's plan depends on, gathered from caches and dashboards at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.apimachinery.ownership import is_owned_by
from controller.apimachinery.problem import Problem
from controller.kube.resources import JOBS, PODS, SERVICES
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS, SubmissionMode, status_of
from controller.ray.dashboard import JobProbe
from controller.ray.head.incarnation import find_head, outlives_head
from controller.ray.job.attempt.command_ids import stop_id, submission_id
from controller.ray.job.attempt.names import (
    cluster_name,
    generated_submission_id,
    head_service_name,
    submitter_name,
)
from controller.ray.job.state_machine.states import State
from controller.ray.job.submitter.state import NO_SUBMITTER, Submitter, observe_submitter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from controller.kube.objects import Job, Pod, Service
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.api.rayjob import JobSpec, RayJob
    from controller.ray.dashboard import CommandOutcome, Dashboards
    from controller.ray.dashboard import ProbeObservation as Answer
    from controller.ray.head.incarnation import LiveHead
    from controller.ray.job.settings import JobSettings
    from controller.runtime.reconcile.kind import LogText, Reads, Refusal

CLUSTER_SCOPE = "cluster"
SUBMITTER_SCOPE = "submitter"
SERVICE_SCOPE = "head service"
SUBMITTER_PODS = "submitter of"
"""Index of submitter pods by the key of their RayJob."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What an observation is made from besides the caches.

    Attributes:
        design_of: the specification of a job, or what is wrong with it; computed once an object.
        spec_of: the specification of a cluster, None if it cannot be read; once an object too.
        dashboards: what Ray says.
        settings: of the controller.
    """

    design_of: Callable[[RayJob], JobSpec | Problem]
    spec_of: Callable[[RayCluster], ClusterSpec | None]
    dashboards: Dashboards
    settings: JobSettings


@dataclass(frozen=True, slots=True)
class Names:
    """What the next attempt will be called."""

    cluster: str
    submission_id: str


@dataclass(frozen=True, slots=True)
class Observation:
    """A RayJob and what belongs to it, as they are.

    Attributes:
        job: the object.
        spec: its specification; a `Problem` if it is not valid.
        status: its status, fields of wrong types left out.
        state: where the job is.
        names: of the next attempt, where one may begin.
        cluster: the RayCluster of the attempt.
        cluster_spec: its specification, None if there is none that can be read.
        foreign_cluster: whether the cluster's name belongs to a cluster of somebody else.
        strays: RayClusters of this job that are not the present attempt's.
        head: the live head of the cluster.
        durable: whether another head of the cluster may know the job.
        submitter: the submitter of the attempt.
        submitter_job: the Job that submits, of whatever attempt.
        submitter_pods: its pods.
        foreign_submitter: whether a Job of somebody else has the submitter's name.
        service: the job's own head service.
        answer: what the dashboard says about the submission id; None if nobody asked yet.
        submitted: how the submission by us ended.
        stopped: how stopping the job in Ray ended.
        log: the last lines of the submitter's log, once they were read.
        unsettled: scopes with a write of unknown outcome.
        refusals: what the server refused to create, by scope.
        doubts: sentences of the ledger.
    """

    job: RayJob
    spec: JobSpec | Problem
    status: Mapping[str, Any]
    state: State
    names: Names | None = None
    cluster: RayCluster | None = None
    cluster_spec: ClusterSpec | None = None
    foreign_cluster: bool = False
    strays: tuple[RayCluster, ...] = ()
    head: LiveHead | None = None
    durable: bool = False
    submitter: Submitter = NO_SUBMITTER
    submitter_job: Job | None = None
    submitter_pods: tuple[Pod, ...] = ()
    foreign_submitter: bool = False
    service: Service | None = None
    answer: Answer | None = None
    submitted: CommandOutcome | None = None
    stopped: CommandOutcome | None = None
    log: LogText | None = None
    unsettled: frozenset[str] = frozenset()
    refusals: tuple[tuple[str, Refusal], ...] = ()
    doubts: tuple[str, ...] = ()

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
        """Whether the cluster was made for this job."""
        return self.cluster is not None and is_owned_by(
            self.cluster.metadata, self.job.metadata.uid
        )

    @property
    def recorded(self) -> str:
        """The incarnation that this attempt was recorded to run on; empty if there is none."""
        text = (self.job.metadata.annotations or {}).get(labels.RUNS_ON, "")
        cluster, _, incarnation = text.partition("/")
        return incarnation if cluster == self.cluster_name else ""

    @property
    def valid_spec(self) -> JobSpec:
        """The specification of a job that is known to be valid."""
        assert not isinstance(self.spec, Problem)
        return self.spec

    @property
    def mode(self) -> SubmissionMode | None:
        """How the job is submitted; None if the specification is not valid."""
        return None if isinstance(self.spec, Problem) else self.spec.submission_mode


def observe_job(key: str, reads: Reads, sources: Sources) -> Observation | None:
    """Read the RayJob `namespace/name` and what belongs to it; None if it does not exist."""
    job = reads.get(RAYJOBS, key)
    if job is None:
        return None
    meta, status, spec = job.metadata, status_of(job), sources.design_of(job)
    uid, name = meta.uid, status.get("rayClusterName", "")
    cluster, foreign = _cluster(job, name, spec, reads)
    cluster_spec = sources.spec_of(cluster) if cluster is not None else None
    head, durable = None, False
    if cluster is not None and cluster_spec is not None:
        durable = outlives_head(cluster, cluster_spec)
        head = find_head(cluster, cluster_spec, reads, domain=sources.settings.cluster_domain)
    found = reads.get(JOBS, f"{meta.namespace}/{submitter_name(meta)}")
    submitter_job = found if found is not None and is_owned_by(found.metadata, uid) else None
    submitter_key = f"{meta.namespace}/{submitter_name(meta)}"
    submitter = observe_submitter(spec, submitter_job, head, sources.settings.feature_gates)
    service = reads.get(SERVICES, f"{meta.namespace}/{head_service_name(meta)}")
    state = State.of(status.get("jobDeploymentStatus", ""))
    return Observation(
        job,
        spec,
        status,
        state,
        names=_next_names(job, reads) if state is State.NEW else None,
        cluster=cluster,
        cluster_spec=cluster_spec,
        foreign_cluster=foreign,
        strays=tuple(
            each for each in reads.by_index(RAYCLUSTERS, "owner", uid) if each.metadata.name != name
        ),
        head=head,
        durable=durable,
        submitter=submitter,
        submitter_job=submitter_job,
        submitter_pods=tuple(reads.by_index(PODS, SUBMITTER_PODS, submitter_key)),
        foreign_submitter=(found is not None and submitter_job is None)
        or reads.is_taken(JOBS, submitter_key),
        service=service if service is not None and is_owned_by(service.metadata, uid) else None,
        answer=_answer(head, status.get("jobId", ""), sources.dashboards),
        submitted=_outcome(head, submission_id(status.get("jobId", "")), sources.dashboards),
        stopped=_outcome(head, stop_id(status.get("jobId", "")), sources.dashboards),
        log=reads.log_tail(submitter.log, uid) if submitter.log is not None else None,
        unsettled=reads.unsettled_scopes(uid),
        refusals=tuple(_refusals(meta.namespace, name, submitter_key, reads)),
        doubts=reads.doubts(uid),
    )


def _cluster(
    job: RayJob, name: str, spec: JobSpec | Problem, reads: Reads
) -> tuple[RayCluster | None, bool]:
    """The cluster of the attempt, and whether the name is somebody else's."""
    if not name:
        return None, False
    key = f"{job.metadata.namespace}/{name}"
    cluster = reads.get(RAYCLUSTERS, key)
    if cluster is None:
        return None, reads.is_taken(RAYCLUSTERS, key)
    selected = "" if isinstance(spec, Problem) else spec.selected_cluster
    owned = is_owned_by(cluster.metadata, job.metadata.uid)
    if owned or selected == name or isinstance(spec, Problem):
        return cluster, False
    return None, True


def _next_names(job: RayJob, reads: Reads) -> Names:
    """Names that were never used: they depend on a revision that only one attempt can start at."""
    meta = job.metadata
    used = {each.get("rayClusterName") for each in status_of(job).get("attempts", ())}
    attempt = meta.resource_version
    while True:
        name = cluster_name(meta, attempt)
        if name not in used and reads.get(RAYCLUSTERS, f"{meta.namespace}/{name}") is None:
            return Names(name, generated_submission_id(meta, attempt))
        attempt += "'"


def _answer(head: LiveHead | None, job_id: str, dashboards: Dashboards) -> Answer | None:
    if head is None or not job_id:
        return None
    return dashboards.observation(head.dashboard, JobProbe(job_id))


def _outcome(
    head: LiveHead | None, command_id: str, dashboards: Dashboards
) -> CommandOutcome | None:
    return None if head is None else dashboards.outcome(head.dashboard, command_id)


def _refusals(
    namespace: str, cluster: str, submitter_key: str, reads: Reads
) -> Iterator[tuple[str, Refusal]]:
    wanted = (
        (CLUSTER_SCOPE, RAYCLUSTERS, f"{namespace}/{cluster}"),
        (SUBMITTER_SCOPE, JOBS, submitter_key),
    )
    for scope, resource, key in wanted:
        refusal = reads.refusal(resource, key)
        if refusal is not None:
            yield scope, refusal
