"""The controller of batch/v1 Jobs, and its plans: pure functions of the time.

Jobs are neither indexed nor suspended, and pods of a smaller `parallelism` run on.

A Job with an outcome (SuccessCriteriaMet, FailureTarget) first deletes its pods and is only
then finished (Complete, Failed), as upstream. Terminating pods do not count as active.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from devcluster.nodes.components import (
    ComponentContext,
    delete_seen,
    seconds_since,
    suffix,
)
from devcluster.nodes.objects import (
    JOBS,
    ControlledJob,
    ControlledJobSpec,
    ReportedJobStatus,
)
from devcluster.nodes.pods import (
    PODS,
    ConditionUpdate,
    KubeletPod,
    PodConditionType,
    PodPhase,
    with_conditions,
)
from devcluster.nodes.workloads import WorkloadController, pod_body

COMPLETE, FAILED_JOB = "Complete", "Failed"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
_DEFAULT_BACKOFF_LIMIT = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0
"""Seconds until a failed pod is replaced: of the first one, and at most; it doubles with each."""


class JobPlan(Struct, frozen=True):
    """The plan for one Job.

    Attributes:
        requeue_after: seconds until the next reconcile, None if only a change matters.
        expired: whether the Job itself must be deleted.
    """

    status: ReportedJobStatus
    creates: int = 0
    deletes: tuple[KubeletPod, ...] = ()
    requeue_after: float | None = None
    expired: bool = False


class _Pods(Struct, frozen=True):
    """The pods of one Job by state."""

    active: tuple[KubeletPod, ...]
    terminating: tuple[KubeletPod, ...]
    succeeded: tuple[KubeletPod, ...]
    failed: tuple[KubeletPod, ...]

    @classmethod
    def sort(cls, pods: Sequence[KubeletPod]) -> _Pods:
        staying = [pod for pod in pods if not pod.metadata.terminating]
        return cls(
            active=tuple(pod for pod in staying if not pod.is_finished),
            terminating=tuple(p for p in pods if p.metadata.terminating and not p.is_finished),
            succeeded=tuple(pod for pod in pods if pod.status.phase == PodPhase.SUCCEEDED),
            failed=tuple(pod for pod in staying if pod.status.phase == PodPhase.FAILED),
        )

    @property
    def restarts(self) -> int:
        """Restarts of containers in living pods, which the limit counts under OnFailure."""
        return sum(c.restart_count for pod in self.active for c in pod.status.in_order)


def plan_job(
    job: ControlledJob, pods: Sequence[KubeletPod], now: datetime, *, failures: int = 0
) -> JobPlan:
    """Return the plan for `job` at this time; `failures` of its pods are known to have failed."""
    if job.status.condition(COMPLETE) or job.status.condition(FAILED_JOB):
        return _plan_finished(job, now)
    sorted_pods = _Pods.sort(pods)
    status = _counted(job.status, sorted_pods, failures)
    if not status.start_time:
        status = replace(status, start_time=rfc3339(now))
    verdict = _outcome(job.spec, status, sorted_pods, now)
    if verdict:
        return _plan_finishing(status, sorted_pods, verdict, now)
    return _plan_running(job.spec, status, sorted_pods, now)


def _counted(status: ReportedJobStatus, pods: _Pods, failures: int) -> ReportedJobStatus:
    """Update the counts; finished pods that were deleted stay counted."""
    return replace(
        status,
        active=len(pods.active),
        ready=sum(pod.status.is_true(PodConditionType.READY) for pod in pods.active),
        terminating=len(pods.terminating),
        succeeded=max(status.succeeded, len(pods.succeeded)),
        failed=max(status.failed, len(pods.failed), failures),
    )


def _plan_finished(job: ControlledJob, now: datetime) -> JobPlan:
    ttl = job.spec.ttl_seconds_after_finished
    finished = job.status.condition(COMPLETE) or job.status.condition(FAILED_JOB)
    if ttl is None or finished is None:
        return JobPlan(job.status)
    remaining = ttl - seconds_since(finished.last_transition_time, now)
    if remaining > 0:
        return JobPlan(job.status, requeue_after=remaining)
    return JobPlan(job.status, expired=True)


def _outcome(
    spec: ControlledJobSpec, status: ReportedJobStatus, pods: _Pods, now: datetime
) -> ConditionUpdate | None:
    """Return the outcome of the Job, None if there is none; a written outcome is final."""
    for kind in (FAILURE_TARGET, SUCCESS_CRITERIA_MET):
        given = status.condition(kind)
        if given:
            return _verdict(kind, given.reason, given.message)
    limit = _DEFAULT_BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
    if status.failed + pods.restarts > limit:
        message = "Job has reached the specified backoff limit"
        return _verdict(FAILURE_TARGET, "BackoffLimitExceeded", message)
    deadline = spec.active_deadline_seconds
    if deadline is not None and seconds_since(status.start_time, now) >= deadline:
        message = "Job was active longer than specified deadline"
        return _verdict(FAILURE_TARGET, "DeadlineExceeded", message)
    if status.succeeded >= spec.wanted:
        message = "Reached expected number of succeeded pods"
        return _verdict(SUCCESS_CRITERIA_MET, "CompletionsReached", message)
    return None


def _plan_finishing(
    status: ReportedJobStatus, pods: _Pods, verdict: ConditionUpdate, now: datetime
) -> JobPlan:
    status = _with_condition(status, now, verdict)
    if pods.active or pods.terminating:
        return JobPlan(status, deletes=pods.active)
    kind = COMPLETE if verdict.type == SUCCESS_CRITERIA_MET else FAILED_JOB
    status = _with_condition(status, now, _verdict(kind, verdict.reason, verdict.message))
    if kind == COMPLETE:
        status = replace(status, completion_time=rfc3339(now))
    return JobPlan(status, requeue_after=0.0)


def _plan_running(
    spec: ControlledJobSpec, status: ReportedJobStatus, pods: _Pods, now: datetime
) -> JobPlan:
    deadline = spec.active_deadline_seconds
    wakes = [] if deadline is None else [deadline - seconds_since(status.start_time, now)]
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    creates = max(0, min(parallelism, spec.wanted - status.succeeded) - len(pods.active))
    if creates and (pause := _pause_after_failure(pods, now)) > 0:
        creates = 0
        wakes.append(pause)
    return JobPlan(status, creates, requeue_after=min(wakes, default=None))


def _pause_after_failure(pods: _Pods, now: datetime) -> float:
    """Return the seconds until a failed pod may be replaced."""
    if not pods.failed:
        return 0.0
    exponent = min(len(pods.failed) - 1, 32)
    pause = min(_FIRST_PAUSE * 2.0**exponent, _LONGEST_PAUSE)
    return pause - min(seconds_since(_failed_at(pod), now) for pod in pods.failed)


def _failed_at(pod: KubeletPod) -> str | None:
    ends = [c.state.terminated.finished_at for c in pod.status.in_order if c.state.terminated]
    return max((end for end in ends if end), default=pod.metadata.creation_timestamp)


def _verdict(kind: str, reason: str | None, message: str | None) -> ConditionUpdate:
    return ConditionUpdate(kind, is_true=True, reason=reason, message=message)


def _with_condition(
    status: ReportedJobStatus, now: datetime, verdict: ConditionUpdate
) -> ReportedJobStatus:
    conditions = with_conditions(status.conditions, [verdict], rfc3339(now))
    return replace(status, conditions=conditions)


_NAME_LIMIT = 63


class JobController(WorkloadController[ControlledJob, KubeletPod]):
    """Creates and deletes the pods of Jobs, and writes the Jobs' statuses."""

    def __init__(self, context: ComponentContext) -> None:
        super().__init__(JOBS, PODS, context)
        self._failures: dict[str, set[str]] = {}  # uids of pods by the uid of their Job
        self._deleted: set[str] = set()  # uids of the pods that this controller has deleted

    async def _reconcile(self, job: ControlledJob, pods: Sequence[KubeletPod], /) -> float | None:
        failures = self._failures.setdefault(job.metadata.uid, set())
        failures |= {pod.metadata.uid for pod in pods if self._has_failed(pod)}
        plan = plan_job(job, pods, self._wall(), failures=len(failures))
        if plan.expired:
            await self._expire(job)
            return None
        for pod in plan.deletes:
            self._deleted.add(pod.metadata.uid)
            await delete_seen(self._client, PODS, pod)
        for name in self._free_names(job, plan.creates):
            await self._create_pod(job, _pod_body(job, name), "Error creating: ")
        await self._report(job, plan.status)
        return plan.requeue_after

    def _has_failed(self, pod: KubeletPod) -> bool:
        if pod.metadata.uid in self._deleted:
            return False
        return pod.status.phase == PodPhase.FAILED or (
            pod.metadata.terminating and not pod.is_finished
        )

    def _free_names(self, job: ControlledJob, count: int) -> Iterator[str]:
        """Yield the free pod names in order; the same state yields the same names."""
        meta, number = job.metadata, 0
        while count > 0:
            tail = f"-{suffix(meta.uid, str(number))}"
            name = meta.name[: _NAME_LIMIT - len(tail)] + tail
            number += 1
            if self._children.get(f"{meta.namespace}/{name}") is None:
                count -= 1
                yield name

    async def _expire(self, job: ControlledJob) -> None:
        meta = job.metadata
        await self._client.delete(
            JOBS, meta.namespace, meta.name, uid=meta.uid, propagation="Foreground"
        )


def _pod_body(job: ControlledJob, name: str) -> dict[str, Any]:
    meta = job.metadata
    labels = {
        "batch.kubernetes.io/controller-uid": meta.uid,
        "batch.kubernetes.io/job-name": meta.name,
        "controller-uid": meta.uid,
        "job-name": meta.name,
    }
    spec: dict[str, Any] = job.spec.template.get("spec") or {}
    return pod_body(JOBS, job, name=name, labels=labels, spec=spec)
