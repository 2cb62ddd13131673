"""The statuses of a process pod and of its containers, as the kubelet computes them."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from controller.devcluster.nodes import containers
from controller.devcluster.nodes.pods import (
    ConditionUpdate,
    PodConditionType,
    PodIP,
    PodPhase,
    ReportedContainerState,
    ReportedContainerStatus,
    ReportedPodStatus,
    Running,
    Waiting,
    with_conditions,
)
from controller.devcluster.processes.specification import SpecifiedPod

PULL_ERROR, PULL_BACK_OFF, NEVER_PULLED = "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"
CONFIG_ERROR, CREATE_ERROR = "CreateContainerConfigError", "CreateContainerError"

KILLED_CODE = 137


def waiting(status: ReportedContainerStatus, reason: str, message: str) -> ReportedContainerStatus:
    """Return the status of a container that cannot start; an exit moves to `lastState`."""
    last = ReportedContainerState(terminated=status.state.terminated)
    return replace(
        status,
        ready=False,
        started=False,
        state=ReportedContainerState(waiting=Waiting(reason=reason, message=message)),
        last_state=last if status.state.terminated else status.last_state,
    )


def running(
    status: ReportedContainerStatus, pod_uid: str, image_id: str, restarts: int, now: str
) -> ReportedContainerStatus:
    """Return the status of a container that has just been started, after `restarts` restarts."""
    last = ReportedContainerState(terminated=status.state.terminated)
    return replace(
        status,
        container_id=f"process://{containers.digest(pod_uid, status.name, str(restarts))}",
        image_id=image_id,
        restart_count=restarts,
        ready=False,
        started=False,
        state=ReportedContainerState(running=Running(started_at=now)),
        last_state=last if status.state.terminated else status.last_state,
    )


def probed(
    status: ReportedContainerStatus, *, started: bool, ready: bool
) -> ReportedContainerStatus:
    """Return the status of a running container after a probe result."""
    return replace(status, started=started, ready=ready)


def initialized(status: ReportedContainerStatus) -> ReportedContainerStatus:
    """Return the status of an init container that has completed."""
    return replace(status, ready=True)


READY_TO_START = "PodReadyToStartContainers"


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The kubelet's facts about a pod that it runs.

    Attributes:
        pod_ip: address of the pod, empty as long as it has no sandbox.
        is_over: whether all containers have ended and none will run again.
        reason: reason why the whole pod was stopped, empty if it was not.
    """

    start_time: str
    host_ip: str
    pod_ip: str
    is_over: bool
    has_sandbox: bool
    reason: str
    message: str
    init: tuple[ReportedContainerStatus, ...]
    main: tuple[ReportedContainerStatus, ...]


def pod_status(
    pod: SpecifiedPod, present: ReportedPodStatus, facts: PodFacts, now: str
) -> ReportedPodStatus:
    """Return the status to report; times and conditions of others in `present` are kept."""
    phase = _phase(pod, facts)
    unready = _unready(pod, facts, phase)
    verdicts = (
        ConditionUpdate(READY_TO_START, is_true=facts.has_sandbox),
        ConditionUpdate(PodConditionType.SCHEDULED, is_true=True),
        _initialised(pod, facts, phase),
        _condition_update(PodConditionType.READY, unready),
        _condition_update(PodConditionType.CONTAINERS_READY, unready),
    )
    return replace(
        present,
        phase=phase,
        reason=facts.reason if facts.is_over else "",
        message=facts.message if facts.is_over else "",
        start_time=facts.start_time,
        host_ip=facts.host_ip,
        host_ips=(PodIP(ip=facts.host_ip),),
        pod_ip=facts.pod_ip,
        pod_ips=(PodIP(ip=facts.pod_ip),) if facts.pod_ip else (),
        conditions=with_conditions(present.conditions, verdicts, now),
        init_container_statuses=facts.init,
        container_statuses=facts.main,
    )


def _condition_update(kind: str, why_not: tuple[str, str] | None) -> ConditionUpdate:
    if why_not is None:
        return ConditionUpdate(kind, is_true=True)
    reason, message = why_not
    return ConditionUpdate(kind, is_true=False, reason=reason, message=message or None)


def _phase(pod: SpecifiedPod, facts: PodFacts) -> str:
    """Return the phase; it is not final while any container may run."""
    if facts.is_over:
        ends = [*facts.main, *_one_time(pod, facts)]
        has_failed = facts.reason or any(_last_code(status) != 0 for status in ends)
        return PodPhase.FAILED if has_failed else PodPhase.SUCCEEDED
    waits = any(s.state.waiting and not s.last_state.terminated for s in facts.main)
    if waits or not all(_is_initialised(status, pod) for status in facts.init):
        return PodPhase.PENDING
    return PodPhase.RUNNING


def _last_code(status: ReportedContainerStatus) -> int | None:
    ended = status.state.terminated or status.last_state.terminated
    return ended.exit_code if ended else None


def _one_time(pod: SpecifiedPod, facts: PodFacts) -> list[ReportedContainerStatus]:
    sidecars = {c.name for c in pod.spec.init_containers if c.is_sidecar}
    return [status for status in facts.init if status.name not in sidecars]


def _is_initialised(status: ReportedContainerStatus, pod: SpecifiedPod) -> bool:
    if any(c.is_sidecar and c.name == status.name for c in pod.spec.init_containers):
        return status.started is True or status.restart_count > 0
    return _last_code(status) == 0 and status.state.terminated is not None


def _initialised(pod: SpecifiedPod, facts: PodFacts, phase: str) -> ConditionUpdate:
    if phase == PodPhase.SUCCEEDED:
        return ConditionUpdate(PodConditionType.INITIALIZED, is_true=True, reason="PodCompleted")
    names = [status.name for status in facts.init if not _is_initialised(status, pod)]
    if not names or any(s.state.running or s.last_state.terminated for s in facts.main):
        return ConditionUpdate(PodConditionType.INITIALIZED, is_true=True)
    return ConditionUpdate(
        PodConditionType.INITIALIZED,
        is_true=False,
        reason="ContainersNotInitialized",
        message=f"containers with incomplete status: [{' '.join(names)}]",
    )


def _unready(pod: SpecifiedPod, facts: PodFacts, phase: str) -> tuple[str, str] | None:
    """Return reason and message of containers that are not ready; None if they are."""
    if phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return "PodCompleted" if phase == PodPhase.SUCCEEDED else "PodFailed", ""
    sidecars = {c.name for c in pod.spec.init_containers if c.is_sidecar}
    counted = [s for s in facts.init if s.name in sidecars] + list(facts.main)
    names = [status.name for status in counted if not status.ready]
    if not names:
        return None
    return "ContainersNotReady", f"containers with unready status: [{' '.join(names)}]"
