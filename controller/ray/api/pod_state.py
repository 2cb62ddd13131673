"""Reads role, group and state of a Ray pod, and whether it is about to be taken away.

Admission webhooks insert containers at any position of a live pod, and a kubelet sorts their
statuses by name. Only in a template is Ray's container always the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from controller.apimachinery.conditions import time_of
from controller.kube.objects import (
    RAY_PORT,
    Condition,
    Container,
    ContainerStatus,
    Node,
    Pod,
    Taint,
)
from controller.ray.api import labels

_HEAD_NAME: Final = re.compile(r"-head(-[a-z0-9]+)?$")
"""The end of a head's name; a worker's name has `-worker-` instead of `-head-`."""

START_COMMAND: Final = "KUBERAY_GEN_RAY_START_CMD"
"""A variable of Ray's container in each pod that KubeRay or Manta has created, and of no other."""

SUBMISSION_ID: Final = "RAY_JOB_SUBMISSION_ID"
"""The same of the container that submits a job."""


def ray_container(pod: Pod) -> Container | None:
    """Return Ray's container of a live pod."""
    containers = pod.spec.containers
    return containers[0] if len(containers) == 1 else container_with(containers, START_COMMAND)


def ray_status(pod: Pod) -> ContainerStatus | None:
    """Return the status of Ray's container; None if the kubelet has not reported it."""
    container = ray_container(pod)
    name = container.name if container is not None else ""
    return next((each for each in pod.status.container_statuses if each.name == name), None)


def ray_started(pod: Pod) -> datetime | None:
    """Return when the Ray container was started, None if it does not run."""
    status = ray_status(pod)
    running = status.state.running if status is not None else None
    return time_of(running.started_at) if running is not None else None


def gcs_port(pod: Pod) -> str:
    """Return the port of the GCS that the pod was created for; empty if it does not say."""
    variables = (each for container in pod.spec.containers for each in container.env)
    return next((each.value for each in variables if each.name == RAY_PORT), "")


def has_ended_since(pod: Pod, moment: datetime) -> bool:
    """Return whether Ray's container has ended at that time or later, restarted or not."""
    status = ray_status(pod)
    ends = (status.state.terminated, status.last_state.terminated) if status is not None else ()
    times = (time_of(each.finished_at) for each in ends if each is not None)
    return any(each is not None and each >= moment for each in times)


def has_never_run(pod: Pod) -> bool:
    """Return whether Ray's container has certainly not been started yet."""
    return is_unstarted(pod, ray_status(pod))


def is_unstarted(pod: Pod, status: ContainerStatus | None) -> bool:
    """Return whether the container with this status has certainly not been started yet."""
    if status is None:
        return pod.status.phase == "Pending"
    ends = (status.state.terminated, status.last_state.terminated)
    return status.state.running is None and not any(ends) and status.restart_count == 0


def container_with(containers: Sequence[Container], *variables: str) -> Container | None:
    """Return the container with the first of the variables that one has, else the first one."""
    for variable in variables:
        for container in containers:
            if any(entry.name == variable for entry in container.env):
                return container
    return containers[0] if containers else None


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
    for present in pod.status.conditions:  # not by `condition`: each plan asks ten times a pod
        if present.type == "Ready":
            return present.status == "True"
    return False


def is_head(pod: Pod) -> bool:
    """Return whether it is a head, by either of two labels, or by its name if both are missing.

    A head that has lost its labels is still running, and a cluster can have only one head.
    """
    found = pod.metadata.labels or {}
    if labels.NODE_TYPE not in found and labels.GROUP not in found:
        return _HEAD_NAME.search(pod.metadata.name) is not None
    role = found.get(labels.NODE_TYPE)
    return role == labels.HEAD or (
        found.get(labels.GROUP) == labels.HEAD_GROUP and role != labels.REDIS_CLEANUP
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


_TAINTS: Final = frozenset({
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "aws-node-termination-handler/rebalance-recommendation",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/spot-itn",
    "cloud.google.com/impending-node-termination",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/out-of-service",
})  # fmt: skip
"""Taints by which clouds and autoscalers announce that a node goes."""

_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class Disruption(Struct, frozen=True):
    """The end of a running pod that somebody has announced.

    Attributes:
        why: a clause.
        until: when its processes are killed; None while nobody has said.
    """

    why: str
    until: datetime | None = None


def disruption_of(pod: Pod, node: Node | None = None) -> Disruption | None:
    """Return the disruption of a pod; None if it stays, or does not run any more."""
    if pod.status.phase != "Running":
        return None
    target = condition(pod, "DisruptionTarget")
    evicted = ""
    if target is not None and target.status == "True":
        said = ": ".join(each for each in (target.reason, target.message) if each)
        evicted = f"it is a disruption target ({said or 'for no reason given'})"
    if pod.metadata.terminating:
        return Disruption(
            evicted or "it is being deleted", time_of(pod.metadata.deletion_timestamp)
        )
    why = evicted or (why_leaving(node, pod) if node is not None else "")
    return Disruption(why) if why else None


def is_announced(pod: Pod) -> bool:
    """Return whether a pod that is not deleted was drained because it will be taken away."""
    return labels.DISRUPTION in (pod.metadata.annotations or {})


def why_leaving(node: Node, pod: Pod | None = None) -> str:
    """Return why the pods of a node will be taken away; empty if they stay.

    A pod that tolerates what keeps others away stays: its replacement might come to this node.
    """
    name = node.metadata.name
    if node.metadata.terminating:
        return f"its node {name} is being deleted"
    for taint in node.spec.taints:
        if taint.key in _TAINTS and not _tolerates(pod, taint):
            return f"its node {name} has the taint {taint.key}"
    if node.spec.unschedulable and not _tolerates(pod, _CORDON):
        return f"its node {name} is cordoned"
    return ""


def _tolerates(pod: Pod | None, taint: Taint) -> bool:
    return pod is not None and any(
        each.effect in {"", taint.effect}
        and each.key in {"", taint.key}
        and (each.operator == "Exists" or (bool(each.key) and each.value == taint.value))
        for each in pod.spec.tolerations
    )
