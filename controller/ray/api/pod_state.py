"""What the status of a pod means to its RayCluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.kube.objects import Condition, Pod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.kube.objects import Pod

_HEAD_NAME: Final = re.compile(r"-head(-[a-z0-9]+)?$")
"""The end of a head's name; that of a worker's has `-worker-` in the place of `-head-`."""


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
    """Whether it is labelled as a head: one of the two labels is enough, its name if both are gone.

    A head that has lost its labels still runs, and is the only head that there may be.
    """
    found = pod.metadata.labels or {}
    if labels.NODE_TYPE not in found and labels.GROUP not in found:
        return _HEAD_NAME.search(pod.metadata.name) is not None
    return found.get(labels.NODE_TYPE) == labels.HEAD or (
        found.get(labels.GROUP) == labels.HEAD_GROUP
    )


def group_of(pod: Pod) -> str:
    """Name of the worker group that it belongs to, empty if it says none."""
    return (pod.metadata.labels or {}).get(labels.GROUP, "")


def is_on_lost_node(pod: Pod) -> bool:
    """The node lifecycle turns Ready over and leaves the kubelet's last words as they are."""
    status, ready = pod.status, condition(pod, "Ready")
    if status.reason == "NodeLost" or status.phase == "Unknown":
        return True
    if ready is None or ready.status == "True":
        return False
    containers = status.container_statuses
    all_well = bool(containers) and all(container.ready for container in containers)
    return ready.status == "Unknown" or (all_well and not ready.reason)
