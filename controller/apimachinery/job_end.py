"""The end of a Job whose pods others keep alive.

A service mesh or a webhook adds a container that does not end to the pod. Kubernetes then counts
the pod neither as succeeded nor as failed, and never finishes the Job. So the end of the Job's own
containers counts, not that of the pod around them. Native sidecars end with their pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.timestamps import time_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from controller.kube.objects import ContainerStateTerminated, Job, Pod

_FINISHED: Final = ("Complete", "Failed", "FailureTarget")
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_BACKOFF_LIMIT: Final = 6
"""Kubernetes' default of `spec.backoffLimit`."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a Job of one pod at a time.

    Attributes:
        succeeded: whether it reached its goal.
        at: the time, None if it is not known.
        reason: why Kubernetes counts it as failed, `BackoffLimitExceeded: ...`; may be empty.
        last: how the first of its own containers ended last; None if no pod shows it.
        finished: whether Kubernetes counts the Job as finished too.
    """

    succeeded: bool
    at: datetime | None
    reason: str = ""
    last: ContainerStateTerminated | None = None
    finished: bool = True


def job_end(job: Job, pods: Iterable[Pod], containers: Collection[str] = ()) -> JobEnd | None:
    """Return how the Job has ended; None while it runs, or will be repeated.

    Args:
        job: the Job.
        pods: its pods.
        containers: names of the containers that decide; by default all of its template.
    """
    names = containers or own_containers(job)
    known = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
    ends = [(pod, end) for pod in reversed(known) if (end := own_end(pod, names)) is not None]
    last = ends[0][1] if ends else None
    for condition in job.status.conditions:
        if condition.status == "True" and condition.type in _FINISHED:
            at = time_of(condition.last_transition_time)
            if condition.type == "Complete":
                return JobEnd(succeeded=True, at=at, last=last)
            reason = f"{condition.reason}: {condition.message}".strip(": ")
            return JobEnd(succeeded=False, at=at, reason=reason, last=last)
    for pod, end in ends:
        if end.exit_code == 0 and not pod.metadata.terminating:
            at = time_of(end.finished_at)
            return JobEnd(succeeded=True, at=at, last=end, finished=not _lives(pod))
    limit = _BACKOFF_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
    for pod, end in ends:
        if _lives(pod) and job.status.failed >= limit:
            return JobEnd(succeeded=False, at=time_of(end.finished_at), last=end, finished=False)
    return None


def failed_alive(job: Job, pods: Iterable[Pod], containers: Collection[str] = ()) -> list[Pod]:
    """Return pods that have failed although others keep them alive: the Job does not repeat them.

    Deleting such a pod makes the Job count it as failed.
    """
    names = containers or own_containers(job)
    ends = ((pod, own_end(pod, names)) for pod in pods if _lives(pod))
    return [pod for pod, end in ends if end is not None and end.exit_code]


def own_end(pod: Pod, containers: Collection[str]) -> ContainerStateTerminated | None:
    """Return the end of a pod's containers of these names, a failure first; None if one may run.

    A pod that restarts its containers after a failure ends with exit code 0 only.
    """
    states = [each.state for each in pod.status.container_statuses if each.name in containers]
    ends = [state.terminated for state in states if state.terminated is not None]
    if not ends or len(ends) < len(set(containers)):
        return None
    failed = next((end for end in ends if end.exit_code), None)
    restarts = pod.spec.restart_policy != "Never" and pod.status.phase not in _ENDED
    return None if failed is not None and restarts else failed or ends[-1]


def own_containers(job: Job) -> tuple[str, ...]:
    """Return the names of the containers of its template."""
    return tuple(str(each.get("name")) for each in template_containers(job))


def template_containers(job: Job) -> list[dict[str, Any]]:
    """Return the containers of its template."""
    containers = mapping(mapping(job.spec.template).get("spec")).get("containers")
    if not isinstance(containers, list):
        return []
    return [mapping(each) for each in cast("list[Any]", containers)]


def others_alive(pod: Pod, containers: Collection[str]) -> list[str]:
    """Return the names of other containers that keep the pod alive."""
    return [
        each.name
        for each in pod.status.container_statuses
        if each.name not in containers and each.state.terminated is None
    ]


def _lives(pod: Pod) -> bool:
    return not pod.metadata.terminating and pod.status.phase not in _ENDED
