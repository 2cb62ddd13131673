"""The state of the submitter, which is a Job or a container in the head pod.

The submitter submits the job and prints its log. Its exit code is not the job's result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from controller.apimachinery.conditions import job_end, template_containers, time_of
from controller.kube.objects import Container
from controller.ray.api import labels
from controller.ray.api.feature_gates import SIDECAR_SUBMITTER_RESTART
from controller.ray.api.names import SUBMITTER
from controller.ray.api.pod_state import SUBMISSION_ID, container_with, is_unstarted
from controller.ray.api.rayjob import SubmissionMode
from controller.ray.diagnosis.pod import exit_code, last_words, saying
from controller.ray.job.facts import SubmitterFact
from controller.runtime.plan import LogTail

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from controller.kube.objects import ContainerStatus, Job, Pod
    from controller.ray.api.feature_gates import FeatureGates
    from controller.ray.head import HeadIncarnation


_RESTARTS: Final = 2
"""Restarts of the container in the head pod until it counts as failed (KubeRay)."""


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
