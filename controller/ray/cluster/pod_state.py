"""What the status of a pod means to its RayCluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.kube.objects import Condition, ContainerStatus, Pod

_CANNOT_START: Final = frozenset({
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "ImageInspectError",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
})  # fmt: skip


def condition(pod: Pod, kind: str) -> Condition | None:
    """The pod's condition of that type."""
    for present in pod.status.conditions:
        if present.type == kind:
            return present
    return None


def is_running(pod: Pod) -> bool:
    """Whether the kubelet says that it runs."""
    return pod.status.phase == "Running"


def is_ready(pod: Pod) -> bool:
    """Whether it runs and has passed its readiness probes."""
    if pod.status.phase != "Running":
        return False
    ready = condition(pod, "Ready")
    return ready is not None and ready.status == "True"


def is_head(pod: Pod) -> bool:
    """Whether it is labelled as a head: one of the two labels is enough.

    A head that has lost the other one is still the only head that there may be.
    """
    found = pod.metadata.labels or {}
    return found.get(labels.NODE_TYPE) == labels.HEAD or (
        found.get(labels.GROUP) == labels.HEAD_GROUP
    )


def group_of(pod: Pod) -> str:
    """Name of the worker group that it belongs to, empty if it says none."""
    return (pod.metadata.labels or {}).get(labels.GROUP, "")


def unhealthy_reason(pod: Pod) -> str | None:
    """Why the pod must be replaced, None if it need not be.

    Ended pods are replaced whatever their restart policy; a pod whose Ray container ended is
    replaced only if the kubelet will not restart it.
    """
    status = pod.status
    if status.phase in {"Failed", "Succeeded"}:
        detail = f" ({status.reason})" if status.reason else ""
        return f"its phase is {status.phase}{detail}"
    if status.phase != "Running" or pod.spec.restart_policy != "Never":
        return None
    ray = _ray_container(pod)
    if ray is None or ray.state.terminated is None:
        return None
    ended = ray.state.terminated
    return f"its Ray container ended with exit code {ended.exit_code} ({ended.reason})"


@dataclass(frozen=True, slots=True, order=True)
class Trouble:
    """Why a pod is not ready; the smaller, the more certainly it needs somebody's help.

    Attributes:
        severity: 0 cannot start, 1 cannot be scheduled, 2 ended, 3 not there yet.
        worker: heads come first.
        pod: name of the pod.
        reason: CamelCase.
        message: a sentence without the pod's name.
    """

    severity: int
    worker: bool
    pod: str
    reason: str
    message: str


def trouble(pod: Pod) -> Trouble | None:
    """Why the pod is not ready; None if it is, or is going anyway."""
    if pod.metadata.terminating or is_ready(pod):
        return None
    severity, reason, message = _why_not_ready(pod)
    return Trouble(severity, not is_head(pod), pod.metadata.name, reason, message)


def _why_not_ready(pod: Pod) -> tuple[int, str, str]:
    status = pod.status
    if status.phase in {"Failed", "Succeeded"}:
        return 2, status.reason or f"Pod{status.phase}", status.message or "has ended"
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason in _CANNOT_START:
            return 0, waiting.reason, _cannot_start(container)
    scheduled = condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return 1, scheduled.reason or "Unschedulable", f"cannot be scheduled: {scheduled.message}"
    ready = condition(pod, "Ready")
    if ready is not None and ready.status != "True" and ready.reason:
        return 3, ready.reason, f"is not ready: {ready.message or ready.reason}"
    return 3, "PodPending", f"is {status.phase or 'Pending'}, not ready yet"


def _cannot_start(container: ContainerStatus) -> str:
    waiting = container.state.waiting
    detail = waiting.message if waiting is not None else ""
    ended = container.last_state.terminated
    last = f"; it last ended with exit code {ended.exit_code} ({ended.reason})" if ended else ""
    return f"cannot start container {container.name}: {detail or 'see its events'}{last}"


def _ray_container(pod: Pod) -> ContainerStatus | None:
    name = pod.spec.containers[0].name if pod.spec.containers else ""
    for status in pod.status.container_statuses:
        if status.name == name:
            return status
    return None
