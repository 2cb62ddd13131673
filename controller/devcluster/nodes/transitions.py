"""Statuses of simulated pods: each function returns the status after one event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.devcluster.nodes import containers
from controller.devcluster.nodes.pods import (
    ConditionUpdate,
    KubeletContainer,
    KubeletPod,
    PodConditionType,
    PodIP,
    PodPhase,
    ReportedContainerStatus,
    ReportedPodStatus,
    with_conditions,
)


@dataclass(frozen=True, slots=True)
class StepContext:
    """Inputs of a step besides the pod.

    Attributes:
        elapsed: seconds since the present wait began.
        pod_ip: present or future address of the pod.
    """

    now: datetime
    elapsed: float
    pod_ip: str
    host_ip: str
    node_lost: bool = False

    @property
    def timestamp(self) -> str:
        """`now` as a timestamp."""
        return rfc3339(self.now)


def unscheduled(
    pod: KubeletPod, here: StepContext, *, reason: str, message: str
) -> ReportedPodStatus:
    """Return the status of a pod for which no node was found, with the reason."""
    verdict = ConditionUpdate(
        PodConditionType.SCHEDULED, is_true=False, reason=reason, message=message
    )
    return _with_conditions(pod.status, here, verdict, phase=PodPhase.PENDING)


def accepted(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status of a pod that the kubelet has seen: images are pulled, nothing runs yet."""
    spec = pod.spec
    reason = containers.INITIALIZING if spec.init_containers else containers.CREATING
    status = _with_conditions(
        pod.status,
        here,
        _initialised(spec.init_containers),
        *_unready(pod),
        ConditionUpdate(PodConditionType.SCHEDULED, is_true=True),
        phase=PodPhase.PENDING,
    )
    return replace(
        status,
        start_time=here.timestamp,
        host_ip=here.host_ip,
        host_ips=(PodIP(ip=here.host_ip),),
        init_container_statuses=tuple(containers.waiting(c, reason) for c in spec.init_containers),
        container_statuses=tuple(containers.waiting(c, reason) for c in spec.containers),
    )


def image_missing(pod: KubeletPod, reason: str) -> ReportedPodStatus:
    """Return the status of a pod without the first image, for an image `reason`."""
    first = pod.status.in_order[0]
    return _with_container(pod.status, containers.without_image(first, reason))


def not_created(pod: KubeletPod, container: str, message: str) -> ReportedPodStatus:
    """Return the status of a pod one of whose containers cannot be created, with the reason."""
    status = pod.status
    for present in status.in_order:
        if present.name == container:
            status = _with_container(status, containers.not_created(present, message))
    return status


def next_started(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status after an init container has ended and the next containers have started."""
    uid, now = pod.metadata.uid, here.timestamp
    status = replace(pod.status, pod_ip=here.pod_ip, pod_ips=(PodIP(ip=here.pod_ip),))
    for container, present in zip(
        pod.spec.init_containers, status.init_container_statuses, strict=False
    ):
        if present.state.terminated or (container.is_sidecar and present.state.running):
            continue
        if present.state.running:
            status = _with_container(status, containers.completed(present, now))
            continue
        status = _with_container(status, containers.started(present, uid, now))
        if not container.is_sidecar:
            return status
    for present in status.container_statuses:
        status = _with_container(status, containers.started(present, uid, now))
    return _with_conditions(
        status,
        here,
        ConditionUpdate(PodConditionType.INITIALIZED, is_true=True),
        phase=PodPhase.RUNNING,
    )


def ready(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status after all readiness probes have succeeded."""
    verdicts = (
        ConditionUpdate(PodConditionType.CONTAINERS_READY, is_true=True),
        ConditionUpdate(PodConditionType.READY, is_true=True),
    )
    return replace(
        _with_conditions(pod.status, here, *verdicts),
        container_statuses=tuple(replace(c, ready=True) for c in pod.status.container_statuses),
    )


def crashed(
    pod: KubeletPod, here: StepContext, *, exit_code: int, only: str = ""
) -> ReportedPodStatus:
    """Return the status after containers have exited and before they run again: all, or one."""
    status = replace(
        _with_conditions(pod.status, here, *_unready(pod, [only] if only else ())),
        container_statuses=tuple(
            c if only not in ("", c.name) else containers.crashed(c, exit_code, here.timestamp)
            for c in pod.status.container_statuses
        ),
    )
    if any(c.restart_count > 0 for c in status.container_statuses):
        return status
    return _restarted(status, pod, here)


def restarted(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status after the pause that follows a crash."""
    return _restarted(pod.status, pod, here)


def exited(pod: KubeletPod, here: StepContext, codes: Mapping[str, int]) -> ReportedPodStatus:
    """Return the status after some containers have exited for good; others may go on."""
    status = replace(
        pod.status,
        container_statuses=tuple(
            containers.terminated(c, codes[c.name], here.timestamp) if c.name in codes else c
            for c in pod.status.container_statuses
        ),
    )
    if all(c.state.terminated for c in status.container_statuses):
        return ended(replace(pod, status=status), here, exit_code=0)
    return _with_conditions(status, here, *_unready(pod, codes))


def ended(pod: KubeletPod, here: StepContext, *, exit_code: int) -> ReportedPodStatus:
    """Return the status after all containers have exited for good."""
    statuses = _all_ended(pod.status.container_statuses, exit_code, here)
    succeeded = all(c.state.terminated and c.state.terminated.exit_code == 0 for c in statuses)
    reason = "PodCompleted" if succeeded else "PodFailed"
    verdicts = (
        ConditionUpdate(PodConditionType.READY, is_true=False, reason=reason),
        ConditionUpdate(PodConditionType.CONTAINERS_READY, is_true=False, reason=reason),
    )
    return replace(
        _with_conditions(
            pod.status, here, *verdicts, phase=PodPhase.SUCCEEDED if succeeded else PodPhase.FAILED
        ),
        container_statuses=statuses,
        init_container_statuses=_all_ended(pod.status.init_container_statuses, exit_code, here),
    )


def out_of_reach(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status of a pod whose node is lost."""
    return _with_conditions(
        pod.status, here, ConditionUpdate(PodConditionType.READY, is_true=False)
    )


def _restarted(status: ReportedPodStatus, pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    return replace(
        status,
        container_statuses=tuple(
            c if c.state.running else containers.restarted(c, pod.metadata.uid, here.timestamp)
            for c in status.container_statuses
        ),
    )


def _all_ended(
    statuses: tuple[ReportedContainerStatus, ...], exit_code: int, here: StepContext
) -> tuple[ReportedContainerStatus, ...]:
    return tuple(
        c if c.state.terminated else containers.terminated(c, exit_code, here.timestamp)
        for c in statuses
    )


def _with_conditions(
    status: ReportedPodStatus,
    here: StepContext,
    *verdicts: ConditionUpdate,
    phase: str | None = None,
) -> ReportedPodStatus:
    """Return `status` with these conditions, and with this phase if one is given."""
    conditions = with_conditions(status.conditions, verdicts, here.timestamp)
    return replace(status, conditions=conditions, phase=phase or status.phase)


def _with_container(
    status: ReportedPodStatus, changed: ReportedContainerStatus
) -> ReportedPodStatus:
    """Return `status` with the container of that name replaced."""

    def substitute(
        statuses: tuple[ReportedContainerStatus, ...],
    ) -> tuple[ReportedContainerStatus, ...]:
        return tuple(changed if present.name == changed.name else present for present in statuses)

    return replace(
        status,
        init_container_statuses=substitute(status.init_container_statuses),
        container_statuses=substitute(status.container_statuses),
    )


def _initialised(init_containers: tuple[KubeletContainer, ...]) -> ConditionUpdate:
    if not init_containers:
        return ConditionUpdate(PodConditionType.INITIALIZED, is_true=True)
    names = " ".join(container.name for container in init_containers)
    return ConditionUpdate(
        PodConditionType.INITIALIZED,
        is_true=False,
        reason="ContainersNotInitialized",
        message=f"containers with incomplete status: [{names}]",
    )


def _unready(pod: KubeletPod, which: Iterable[str] = ()) -> tuple[ConditionUpdate, ConditionUpdate]:
    names = " ".join(which or (container.name for container in pod.spec.containers))
    reason, message = "ContainersNotReady", f"containers with unready status: [{names}]"
    return (
        ConditionUpdate(PodConditionType.READY, is_true=False, reason=reason, message=message),
        ConditionUpdate(
            PodConditionType.CONTAINERS_READY, is_true=False, reason=reason, message=message
        ),
    )
