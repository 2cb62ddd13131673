"""Reads role, group and state of a Ray pod."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.kube.objects import Condition, Pod

_HEAD_NAME: Final = re.compile(r"-head(-[a-z0-9]+)?$")
"""The end of a head's name; a worker's name has `-worker-` instead of `-head-`."""


def condition(pod: Pod, kind: str) -> Condition | None:
    """Return the pod's condition of that type."""
    for present in pod.status.conditions:
        if present.type == kind:
            return present
    return None


def is_running(pod: Pod) -> bool:
    """Return whether the kubelet reports the phase `Running`."""
    return pod.status.phase == "Running"


def is_ready(pod: Pod) -> bool:
    """Return whether it is running and its condition `Ready` is True."""
    if pod.status.phase != "Running":
        return False
    ready = condition(pod, "Ready")
    return ready is not None and ready.status == "True"


def is_head(pod: Pod) -> bool:
    """Return whether it is a head, by either of two labels, or by its name if both are missing.

    A head that has lost its labels is still running, and a cluster can have only one head.
    """
    found = pod.metadata.labels or {}
    if labels.NODE_TYPE not in found and labels.GROUP not in found:
        return _HEAD_NAME.search(pod.metadata.name) is not None
    return found.get(labels.NODE_TYPE) == labels.HEAD or (
        found.get(labels.GROUP) == labels.HEAD_GROUP
    )


def group_of(pod: Pod) -> str:
    """Return the name of its worker group, empty if it has no such label."""
    return (pod.metadata.labels or {}).get(labels.GROUP, "")


def is_on_lost_node(pod: Pod) -> bool:
    """Return whether its node no longer reports.

    The node lifecycle controller changes only the condition `Ready`; the rest of the status stays
    as the kubelet last wrote it.
    """
    status, ready = pod.status, condition(pod, "Ready")
    if status.reason == "NodeLost" or status.phase == "Unknown":
        return True
    if ready is None or ready.status == "True":
        return False
    containers = status.container_statuses
    all_well = bool(containers) and all(container.ready for container in containers)
    return ready.status == "Unknown" or (all_well and not ready.reason)
