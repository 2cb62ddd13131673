"""Statuses of simulated pods: each function returns the status after one event."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from devcluster.nodes import containers
from devcluster.nodes.pods import (
    ConditionUpdate,
    KubeletPod,
    PodConditionType,
    PodIP,
    PodPhase,
    ReportedContainerStatus,
    ReportedPodStatus,
    with_conditions,
)


class StepContext(Struct, frozen=True):
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
    conditions = with_conditions(pod.status.conditions, [verdict], here.timestamp)
    return replace(pod.status, conditions=conditions, phase=PodPhase.PENDING)


def accepted(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status of a pod that the kubelet has seen: images are pulled, nothing runs yet."""
    spec = pod.spec
    reason = containers.INITIALIZING if spec.init_containers else containers.CREATING
    status = replace(
        pod.status,
        start_time=here.timestamp,
        host_ip=here.host_ip,
        host_ips=(PodIP(ip=here.host_ip),),
        init_container_statuses=tuple(containers.waiting(c, reason) for c in spec.init_containers),
        container_statuses=tuple(containers.waiting(c, reason) for c in spec.containers),
    )
    return containers.composed(pod, status, here.timestamp)


def image_missing(pod: KubeletPod, reason: str) -> ReportedPodStatus:
    """Return the status of a pod without the first image, for an image `reason`."""
    first = pod.status.in_order[0]
    message = f'Back-off pulling image "{first.image}"'
    if reason == containers.IMAGE_ERROR:
        message = f'failed to pull and unpack image "{first.image}": not found'
    return _with_container(pod.status, containers.blocked(first, reason, message))


def not_created(pod: KubeletPod, container: str, message: str) -> ReportedPodStatus:
    """Return the status of a pod one of whose containers cannot be created, with the reason."""
    status = pod.status
    for present in status.in_order:
        if present.name == container:
            waits = containers.blocked(present, containers.CONFIG_ERROR, message)
            status = _with_container(status, waits)
    return status


def next_started(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status after an init container has ended and the next containers have started."""
    status = containers.addressed(pod.status, here.pod_ip)
    status = _with_next(status, pod, here)
    return containers.composed(pod, status, here.timestamp)


def _with_next(status: ReportedPodStatus, pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    for present in status.init_container_statuses:
        is_sidecar = pod.spec.is_sidecar(present.name)
        if present.state.terminated or (is_sidecar and present.state.running):
            continue
        if present.state.running:
            done = containers.terminated(present, 0, here.timestamp)
            status = _with_container(status, replace(done, ready=True))
            continue
        status = _with_container(status, _started(present, pod, here))
        if not is_sidecar:
            return status
    main = tuple(_started(present, pod, here) for present in status.container_statuses)
    return replace(status, container_statuses=main)


def _started(
    status: ReportedContainerStatus, pod: KubeletPod, here: StepContext, restarts: int = 0
) -> ReportedContainerStatus:
    run = f"sim://{containers.digest(pod.metadata.uid, status.name, str(restarts))}"
    image_id, now = f"{status.image}@sha256:{containers.digest(status.image)}", here.timestamp
    return replace(containers.running(status, run, image_id, restarts, now), started=True)


def ready(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status after all readiness probes have succeeded."""
    status = replace(
        pod.status,
        init_container_statuses=tuple(
            replace(each, ready=each.ready or pod.spec.is_sidecar(each.name))
            for each in pod.status.init_container_statuses
        ),
        container_statuses=tuple(
            replace(each, ready=True) for each in pod.status.container_statuses
        ),
    )
    return containers.composed(pod, status, here.timestamp)


def crashed(
    pod: KubeletPod, here: StepContext, *, exit_code: int, only: str = ""
) -> ReportedPodStatus:
    """Return the status after containers have exited and before they run again: all, or one."""
    status = replace(
        pod.status,
        container_statuses=tuple(
            each if only not in ("", each.name) else _crashed(each, exit_code, here)
            for each in pod.status.container_statuses
        ),
    )
    if not any(each.restart_count > 0 for each in status.container_statuses):
        return restarted(replace(pod, status=status), here)
    return containers.composed(pod, status, here.timestamp)


def _crashed(
    status: ReportedContainerStatus, exit_code: int, here: StepContext
) -> ReportedContainerStatus:
    ended = containers.terminated(status, exit_code, here.timestamp)
    message = f"back-off restarting failed container={status.name}"
    return containers.blocked(ended, containers.CRASH_LOOP, message)


def restarted(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status after the pause that follows a crash."""
    status = replace(
        pod.status,
        container_statuses=tuple(
            each if each.state.running else _started(each, pod, here, each.restart_count + 1)
            for each in pod.status.container_statuses
        ),
    )
    return containers.composed(pod, status, here.timestamp)


def exited(pod: KubeletPod, here: StepContext, codes: Mapping[str, int]) -> ReportedPodStatus:
    """Return the status after some containers have exited for good; others may go on."""
    status = replace(
        pod.status,
        container_statuses=tuple(
            containers.terminated(each, codes[each.name], here.timestamp)
            if each.name in codes
            else each
            for each in pod.status.container_statuses
        ),
    )
    if all(each.state.terminated for each in status.container_statuses):
        return ended(replace(pod, status=status), here, exit_code=0)
    return containers.composed(pod, status, here.timestamp)


def ended(pod: KubeletPod, here: StepContext, *, exit_code: int) -> ReportedPodStatus:
    """Return the status after all containers have exited for good."""

    def over(
        statuses: tuple[ReportedContainerStatus, ...],
    ) -> tuple[ReportedContainerStatus, ...]:
        now = here.timestamp
        return tuple(
            each if each.state.terminated else containers.terminated(each, exit_code, now)
            for each in statuses
        )

    status = replace(
        pod.status,
        init_container_statuses=over(pod.status.init_container_statuses),
        container_statuses=over(pod.status.container_statuses),
    )
    return containers.composed(pod, status, here.timestamp, is_over=True)


def out_of_reach(pod: KubeletPod, here: StepContext) -> ReportedPodStatus:
    """Return the status of a pod whose node is lost."""
    verdict = ConditionUpdate(PodConditionType.READY, is_true=False)
    conditions = with_conditions(pod.status.conditions, [verdict], here.timestamp)
    return replace(pod.status, conditions=conditions)


def _with_container(
    status: ReportedPodStatus, changed: ReportedContainerStatus
) -> ReportedPodStatus:

    def substitute(
        statuses: tuple[ReportedContainerStatus, ...],
    ) -> tuple[ReportedContainerStatus, ...]:
        return tuple(changed if present.name == changed.name else present for present in statuses)

    return replace(
        status,
        init_container_statuses=substitute(status.init_container_statuses),
        container_statuses=substitute(status.container_statuses),
    )
