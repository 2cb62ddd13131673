"""Whether a pod is about to be taken away, why, and until when its processes may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import time_of
from controller.ray.api import labels
from controller.ray.api.pod_state import condition, is_running

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kube.objects import Node, Pod

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


@dataclass(frozen=True, slots=True)
class Disruption:
    """The end of a running pod that somebody has announced.

    Attributes:
        why: a clause.
        until: when its processes are killed; None while nobody has said.
    """

    why: str
    until: datetime | None = None


def disruption_of(pod: Pod, node: Node | None = None) -> Disruption | None:
    """Return the disruption of a pod; None if it stays, or does not run any more.

    Args:
        pod: the pod.
        node: its node; None if nodes are not read.
    """
    if not is_running(pod):
        return None
    target = condition(pod, "DisruptionTarget")
    evicted = ""
    if target is not None and target.status == "True":
        evicted = f"it is a disruption target ({target.reason}: {target.message})"
    if pod.metadata.terminating:
        return Disruption(evicted or "it is deleted", time_of(pod.metadata.deletion_timestamp))
    why = evicted or (why_leaving(node) if node is not None else "")
    return Disruption(why) if why else None


def is_announced(pod: Pod) -> bool:
    """Return whether a pod that is not deleted was drained because it will be taken away."""
    return labels.DISRUPTION in (pod.metadata.annotations or {})


def why_leaving(node: Node) -> str:
    """Return why the pods of a node will be taken away; empty if they stay."""
    name = node.metadata.name
    if node.metadata.terminating:
        return f"its node {name} is being deleted"
    for taint in node.spec.taints:
        if taint.key in _TAINTS:
            return f"its node {name} has the taint {taint.key}"
    return f"its node {name} is cordoned" if node.spec.unschedulable else ""
