"""Statuses that kubelets report: of a container after one event, and of a pod by its containers."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec.structs import replace

from devcluster.nodes.pods import (
    ConditionUpdate,
    KubeletContainer,
    KubeletPod,
    PodConditionType,
    PodIP,
    PodPhase,
    ReportedContainerState,
    ReportedContainerStatus,
    ReportedPodStatus,
    Running,
    Terminated,
    Waiting,
    with_conditions,
)

CREATING, INITIALIZING = "ContainerCreating", "PodInitializing"
IMAGE_ERROR, IMAGE_BACK_OFF = "ErrImagePull", "ImagePullBackOff"
CONFIG_ERROR, CRASH_LOOP = "CreateContainerConfigError", "CrashLoopBackOff"
_LONGEST_MESSAGE = 4096

# Containers.


def waiting(container: KubeletContainer, reason: str) -> ReportedContainerStatus:
    """Return the status of a container that has never run."""
    return ReportedContainerStatus(
        name=container.name,
        image=container.image,
        state=ReportedContainerState(waiting=Waiting(reason=reason)),
    )


def blocked(status: ReportedContainerStatus, reason: str, message: str) -> ReportedContainerStatus:
    """Return the status of a container that cannot start; an exit moves to `lastState`."""
    return replace(
        status,
        ready=False,
        started=False,
        state=ReportedContainerState(waiting=Waiting(reason=reason, message=message)),
        last_state=_last_state(status),
    )


def running(
    status: ReportedContainerStatus, container_id: str, image_id: str, restarts: int, now: str
) -> ReportedContainerStatus:
    """Return the status of a container that has just been started, after `restarts` restarts."""
    return replace(
        status,
        container_id=container_id,
        image_id=image_id,
        restart_count=restarts,
        ready=False,
        started=False,
        state=ReportedContainerState(running=Running(started_at=now)),
        last_state=_last_state(status),
    )


def terminated(
    status: ReportedContainerStatus,
    exit_code: int,
    now: str,
    *,
    reason: str = "",
    message: str = "",
) -> ReportedContainerStatus:
    """Return the status of a container that has ended and is not restarted.

    `exit_code` is 128 + n after signal n, as container runtimes have it. The end of a long
    `message` is kept.
    """
    run = status.state.running
    end = Terminated(
        exit_code=exit_code,
        reason=reason or ("Completed" if exit_code == 0 else "Error"),
        started_at=run.started_at if run else now,
        finished_at=now,
        container_id=status.container_id,
        message=message[-_LONGEST_MESSAGE:] or msgspec.UNSET,
    )
    return replace(status, ready=False, started=False, state=ReportedContainerState(terminated=end))


def _last_state(status: ReportedContainerStatus) -> ReportedContainerState:
    ended = status.state.terminated
    return ReportedContainerState(terminated=ended) if ended else status.last_state


def digest(*parts: str) -> str:
    """Return a hexadecimal identifier that follows from `parts`."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


# Pods.


def addressed(status: ReportedPodStatus, pod_ip: str) -> ReportedPodStatus:
    """Return the status of a pod with that address, which may be empty."""
    return replace(status, pod_ip=pod_ip, pod_ips=(PodIP(ip=pod_ip),) if pod_ip else ())


def composed(
    pod: KubeletPod, status: ReportedPodStatus, now: str, *, is_over: bool = False, reason: str = ""
) -> ReportedPodStatus:
    """Return `status` with the phase and the conditions that follow from its containers.

    The pod `is_over` if all containers have ended and none will run again; with a `reason` it was
    stopped as a whole. Transition times and conditions of others are kept.
    """
    phase = _phase(pod, status, is_over=is_over, reason=reason)
    unready, message = _unready(pod, status, phase)
    verdicts = (
        ConditionUpdate(PodConditionType.SCHEDULED, is_true=True),
        _initialised(pod, status, phase),
        *(
            ConditionUpdate(kind, is_true=not unready, reason=unready, message=message)
            for kind in (PodConditionType.READY, PodConditionType.CONTAINERS_READY)
        ),
    )
    return replace(
        status, phase=phase, conditions=with_conditions(status.conditions, verdicts, now)
    )


def _phase(pod: KubeletPod, status: ReportedPodStatus, *, is_over: bool, reason: str) -> str:
    """Return the phase; it is not final while any container may run."""
    main, init = status.container_statuses, status.init_container_statuses
    if is_over:
        ends = [*main, *(each for each in init if not pod.spec.is_sidecar(each.name))]
        has_failed = reason or any(_last_code(each) != 0 for each in ends)
        return PodPhase.FAILED if has_failed else PodPhase.SUCCEEDED
    waits = any(each.state.waiting and not each.last_state.terminated for each in main)
    if waits or not all(_is_initialised(each, pod) for each in init):
        return PodPhase.PENDING
    return PodPhase.RUNNING


def _last_code(status: ReportedContainerStatus) -> int | None:
    ended = status.state.terminated or status.last_state.terminated
    return ended.exit_code if ended else None


def _is_initialised(status: ReportedContainerStatus, pod: KubeletPod) -> bool:
    if pod.spec.is_sidecar(status.name):
        return status.started is True or status.restart_count > 0
    return _last_code(status) == 0 and status.state.terminated is not None


def _initialised(pod: KubeletPod, status: ReportedPodStatus, phase: str) -> ConditionUpdate:
    if phase == PodPhase.SUCCEEDED:
        return ConditionUpdate(PodConditionType.INITIALIZED, is_true=True, reason="PodCompleted")
    init = status.init_container_statuses
    names = [each.name for each in init if not _is_initialised(each, pod)]
    if not names or any(
        each.state.running or each.last_state.terminated for each in status.container_statuses
    ):
        return ConditionUpdate(PodConditionType.INITIALIZED, is_true=True)
    return ConditionUpdate(
        PodConditionType.INITIALIZED,
        is_true=False,
        reason="ContainersNotInitialized",
        message=f"containers with incomplete status: [{' '.join(names)}]",
    )


def _unready(
    pod: KubeletPod, status: ReportedPodStatus, phase: str
) -> tuple[str | None, str | None]:
    """Return reason and message of a pod that is not ready; None twice for one that is."""
    if phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return "PodCompleted" if phase == PodPhase.SUCCEEDED else "PodFailed", None
    init = status.init_container_statuses
    counted = [each for each in init if pod.spec.is_sidecar(each.name)]
    names = [each.name for each in (*counted, *status.container_statuses) if not each.ready]
    if not names:
        return None, None
    return "ContainersNotReady", f"containers with unready status: [{' '.join(names)}]"
