"""What the status of a pod means to its RayCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.kube.objects import Condition, ContainerStatus, Pod


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


def _ray_container(pod: Pod) -> ContainerStatus | None:
    name = pod.spec.containers[0].name if pod.spec.containers else ""
    for status in pod.status.container_statuses:
        if status.name == name:
            return status
    return None
