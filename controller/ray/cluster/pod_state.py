"""What the status of a pod means to its RayCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.kube.objects import Condition, Pod


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
