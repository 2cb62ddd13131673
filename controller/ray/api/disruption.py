"""Whether a pod is about to be taken away, why, and until when its processes may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import time_of
from controller.kube.objects import Taint
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

_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


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
