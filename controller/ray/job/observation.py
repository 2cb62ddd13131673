"""The input of a RayJob's plan: the RayJob and what belongs to it at one moment, as values.

What follows from them without the time is asked of the observation itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.metadata import is_owned_by
from controller.apimachinery.validation import Problem
from controller.kube.objects import Job, Pod, Service
from controller.ray.api import labels
from controller.ray.api.pod_state import condition, has_never_run, ray_status
from controller.ray.api.raycluster import ClusterSpec, RayCluster
from controller.ray.api.rayjob import JobSpec, RayJob, SubmissionMode
from controller.ray.children.scheduling_groups import NO_GROUPS, ObservedGroups
from controller.ray.dashboard.commands import CommandDone, CommandOutcome
from controller.ray.dashboard.probes import ProbeObservation
from controller.ray.dashboard.responses import JobInfo, JobStatus
from controller.ray.head import HeadIncarnation
from controller.ray.job.facts import FailureReason, State, SubmitterFact
from controller.ray.job.submitter import NO_SUBMITTER, SubmitterState
from controller.ray.settings import RaySettings
from controller.runtime.definitions import InstalledDefinition
from controller.runtime.kind import FailedCreate, LogText
from controller.runtime.plan import Failure, LogTail

CLUSTER_SCOPE: Final = "cluster"
SUBMITTER_SCOPE: Final = "submitter"
SERVICE_SCOPE: Final = "head service"

_TERMINAL: Final = {each.value: each for each in JobStatus if each.terminal}
_POD_ENDED: Final = frozenset({"Succeeded", "Failed"})


class JobObservation(Struct, frozen=True):
    """A RayJob and what belongs to it.

    Attributes:
        spec: its specification; of an invalid one, the fields that can be read.
        problem: what makes the specification invalid; None if it is valid.
        status: its status without fields of the wrong type.
        state: the state that the status names.
        next_cluster: name of the next attempt's cluster; empty unless an attempt may start.
        next_submission_id: submission id of the next attempt, if `spec.jobId` sets none.
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
        answer: the dashboard's report for the submission id; None before the first probe.
        submit_outcome: the result of the operator's own submission.
        stop_outcome: the result of stopping the job in Ray; the one that confirms it, of several.
        log: the last lines of the submitter's log, once they have been read.
        failed_create: what the events of `submitter_job` say about pods that were refused.
        definition: the fields that the installed definition of RayJobs lacks.
        refused_creates: earlier creates that the API server has refused.
        groups: the PodGroup of the job's pods, if a batch scheduler needs one.
    """

    job: RayJob
    spec: JobSpec
    status: Mapping[str, Any]
    state: State
    problem: Problem | None = None
    next_cluster: str = ""
    next_submission_id: str = ""
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
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the RayJob."""
        return self.job.metadata.annotations or {}

    @property
    def submitted(self) -> tuple[str, str]:
        """The submission id before which the RayJob was recorded last, and what was; may be empty.

        The head is recorded with it, so that one of an earlier attempt is not taken for this one's.
        """
        submission, _, fields = self.annotations.get(labels.SUBMITTED, "").partition(" ")
        return submission, fields

    @property
    def is_recorded(self) -> bool:
        """Whether the RayJob carries what is submitted under the present id."""
        return bool(self.annotations.get(labels.SUBMITTED)) and self.submitted[0] == self.job_id

    @property
    def recorded_head(self) -> str:
        """Id of the head recorded for this attempt; empty if none was recorded."""
        cluster, _, incarnation = self.annotations.get(labels.RUNS_ON, "").partition("/")
        is_of_this = cluster == self.cluster_name and self.submitted[0] in {"", self.job_id}
        return incarnation if is_of_this else ""

    @property
    def awaits_other_head(self) -> bool:
        """Whether the recorded head was lost, certainly without the job, and no other is known."""
        is_emptied = self.annotations.get(labels.RUNS_ON) == f"{self.cluster_name}/"
        return is_emptied and self.submitted[0] == self.job_id

    @property
    def mode(self) -> SubmissionMode | None:
        """The submission mode of the job; None if there is no mode of the given name."""
        return self.spec.submission_mode if self.spec.has_known_mode else None

    # -- what Ray has reported about the job --------------------------------------------------

    @property
    def info(self) -> JobInfo | None:
        """Ray's last report about the job; None if it does not know it or did not answer."""
        stopped = self.stop_outcome.value if isinstance(self.stop_outcome, CommandDone) else None
        if isinstance(stopped, JobInfo):
            return stopped
        value = self.answer.value if self.answer is not None else None
        return value if isinstance(value, JobInfo) else None

    @property
    def result(self) -> JobStatus | None:
        """The final status that Ray reported; a stored one stays valid after Ray is gone."""
        stored, info = self.stored_result, self.info
        if stored is None and info is not None and info.status.terminal:
            return info.status
        return stored

    @property
    def stored_result(self) -> JobStatus | None:
        """How the job ended in Ray, as the status says; None if it does not.

        A stored FAILED may be KubeRay's word for a job whose end nobody knows.
        """
        reason = FailureReason.TRANSITION_GRACE_PERIOD_EXCEEDED.for_status
        given_up = self.state is State.FAILED and self.status.get("reason") == reason
        if given_up and not mapping(self.status.get("rayJobInfo")).get("endTime"):
            return None
        return _TERMINAL.get(self.status.get("jobStatus", ""))

    @property
    def has_answered(self) -> bool:
        """Whether the present head's dashboard has given a definite answer and still answers."""
        answer = self.answer
        return answer is not None and answer.value is not None and answer.failing_since is None

    # -- where the job may be -----------------------------------------------------------------

    @property
    def given_id(self) -> str:
        """`spec.jobId`; empty if the selected cluster knows it: Ray runs each id once."""
        attempts = self.status.get("attempts", ()) if self.spec.selected_cluster else ()
        earlier = attempts[:-1] if self.state.has_attempt else attempts
        used = any(each.get("jobId") == self.spec.job_id for each in earlier)
        return "" if used else self.spec.job_id

    @property
    def is_unsubmitted(self) -> bool:
        """Whether the job was certainly not submitted: the operator submits after recording."""
        known = self.recorded_head or self.status.get("jobStatus")
        return self.mode is SubmissionMode.HTTP and not known

    @property
    def may_change_heads(self) -> bool:
        """Whether the job may go to another head: no submitter can have brought it to one.

        Kubernetes has not started the container that submits, or not before the recorded head was
        lost.
        """
        if self.mode is not SubmissionMode.K8S_JOB or self.status.get("jobStatus") or self.info:
            return False
        if self.awaits_other_head:
            return not self.submitter.has_ended
        if not self.recorded_head or SUBMITTER_SCOPE in self.pending_scopes:
            return False
        scopes = (each.write.target.scope for each in self.refused_creates)
        refused = SUBMITTER_SCOPE in scopes
        none_made = refused and self.submitter_job is None and not self.submitter_pods
        return self.submitter.never_ran or none_made

    @property
    def may_know_the_job(self) -> bool:
        """Whether a head that took the recorded one's place may have the job: Ray must say it.

        It was kept with Ray's state, or somebody brought it to this head while no operator was
        there: Ray has not been heard to know it before, and a head that is ready takes jobs.
        """
        if self.gcs_fault_tolerant:
            return True
        is_http = self.mode is SubmissionMode.HTTP
        if self.head is None or is_http or self.status.get("jobStatus"):
            return False
        ray = ray_status(self.head.pod)
        return self.info is not None or (ray is not None and ray.ready)

    @property
    def may_still_run(self) -> bool:
        """Whether the attempt's job may run on a head that can be asked to stop it.

        Only Ray's word ends that: how the job ended, or that Ray does not know it and nobody is
        left who could submit it. That a request was sent, accepted or given up proves nothing.
        """
        if self.head is None or not self.job_id or self.result is not None:
            return False
        if self.info is None and isinstance(self.stop_outcome, CommandDone):
            return self._may_be_submitted_yet
        if not self.recorded_head:  # a sidecar submits early, and KubeRay records no head
            early = self.mode is SubmissionMode.SIDECAR and not has_never_run(self.head.pod)
            return early or bool(self.status.get("jobStatus"))
        same = self.head.id == self.recorded_head
        return same or self.may_know_the_job or self.info is not None

    @property
    def _may_be_submitted_yet(self) -> bool:
        """Whether a submitter could bring the job to a cluster that stays."""
        alive = any(pod.status.phase not in _POD_ENDED for pod in self.submitter_pods)
        return not self.owns_cluster and (self.submitter.fact is SubmitterFact.ACTIVE or alive)

    @property
    def has_leftovers(self) -> bool:
        """Whether something of the attempt exists, or may after an unknown create.

        That is its cluster, its submitter, or its job on a cluster that stays.
        """
        made = self.owns_cluster or bool(self.stale_clusters) or self.submitter_job is not None
        unknown = bool(self.pending_scopes & {CLUSTER_SCOPE, SUBMITTER_SCOPE})
        return made or unknown or (self.state is State.SUSPENDING and self.may_still_run)

    # -- attempts that do not count -----------------------------------------------------------

    @property
    def disrupted_attempts(self) -> int:
        """The number of failed attempts that do not count."""
        return max(0, self.status.get("disrupted", 0))

    @property
    def spared_attempts(self) -> int:
        """How many attempts that disruptions end will not count."""
        return max(0, self.spec.disruption_backoff_limit - self.disrupted_attempts)

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
        uid, _, reason = self.annotations.get(labels.DISRUPTED, "").partition("/")
        return reason if uid and uid == self.recorded_head.partition("/")[0] else ""
