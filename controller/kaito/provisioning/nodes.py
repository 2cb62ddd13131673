"""The nodes of a Workspace: which are ready, which were lost, and the claims that ask for them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field

from controller.apimachinery.metadata import OWNER_UID
from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_CLAIMS, GpuNode
from controller.kaito.api.options import KaitoOptions, image_family
from controller.kaito.api.status import NODES_READY, ConditionFacts
from controller.kaito.presets.gpus import Cloud, find_instance_type
from controller.kube.objects import ObjectMeta
from workqueue import Backoff

ACCELERATOR: Final = "nvidia"
"""Value of the label that nodes with GPUs get."""


_PRESSURES: Final = ("DiskPressure", "MemoryPressure", "PIDPressure")


class NodeFacts(Struct, frozen=True):
    """The facts about a node that the selector of a Workspace finds.

    Attributes:
        is_ready: whether its kubelet says so, and it is not being deleted.
        gpus: number that its plugin offers.
        pressures: conditions of the node that warn, such as `DiskPressure`.
    """

    name: str
    labels: Mapping[str, str]
    uid: str = ""
    is_ready: bool = True
    gpus: int = 0
    pressures: tuple[str, ...] = ()

    @property
    def is_claimed(self) -> bool:
        """True if it came with a claim."""
        return labels.NODE_POOL in self.labels

    @property
    def has_workspace(self) -> bool:
        """True if it was provisioned for any Workspace."""
        return not self.labels.keys().isdisjoint((labels.WORKSPACE, labels.POOL_WORKSPACE))

    def is_of(self, instance_type: str) -> bool:
        """Return whether it is of this instance type; names compare without case (KAI-7)."""
        return self.labels.get(labels.INSTANCE_TYPE, "").lower() == instance_type.lower()


class NodeReadiness(ConditionFacts, frozen=True):
    """The condition `NodesReady`: whether the workload may be created.

    Attributes:
        to_label: names of nodes that lack the label of their accelerator.
    """

    to_label: tuple[str, ...] = ()


def own_nodes(nodes: Iterable[NodeFacts], instance_type: str) -> tuple[NodeFacts, ...]:
    """Return the nodes that existed before and need no claim; of any type if none is named."""
    return tuple(
        node
        for node in nodes
        if not node.is_claimed and (not instance_type or node.is_of(instance_type))
    )


def node_readiness(
    nodes: Collection[NodeFacts], target: int, instance_type: str, *, has_gpus: bool
) -> NodeReadiness:
    """Return whether so many nodes are ready, and offer their GPUs; never of none (KAI-3).

    Of nodes of one's own, whose instance type is empty, nothing is known.
    """
    warning = _pressure(nodes)
    fitting = [node for node in nodes if not instance_type or node.is_of(instance_type)]
    ready = [node for node in fitting if node.is_ready]
    if target < 1 or len(ready) < target:
        message = f"Not enough Nodes are ready: {len(ready)} of {target}{warning}"
        return NodeReadiness(NODES_READY, False, "NodeNotReady", message)
    claimed = [node for node in ready if node.is_claimed] if has_gpus else []
    unlabelled = {n.name for n in claimed if n.labels.get(labels.ACCELERATOR) != ACCELERATOR}
    lacking = unlabelled | {node.name for node in claimed if not node.gpus}
    to_label = tuple(sorted(unlabelled))
    if len(ready) - len(lacking) < target:
        message = f"waiting all node plugins to be ready: {', '.join(sorted(lacking))}{warning}"
        return NodeReadiness(NODES_READY, False, "NodePluginsNotReady", message, to_label)
    message = f"Enough Nodes are ready{warning}"
    return NodeReadiness(NODES_READY, True, "NodesReady", message, to_label)


def _pressure(nodes: Iterable[NodeFacts]) -> str:
    """Return a warning about nodes that are short of something; empty if none is."""
    short = sorted((node for node in nodes if node.pressures), key=lambda node: node.name)
    named = ", ".join(f"{node.name} ({', '.join(node.pressures)})" for node in short)
    return f"; warning: worker node(s) under resource pressure: {named}" if named else ""


def matching(nodes: Iterable[GpuNode], selector: Mapping[str, str]) -> tuple[NodeFacts, ...]:
    """Return the facts about the nodes that have all labels of a selector, by name."""
    wanted = selector.items()
    found = [node_facts(each) for each in nodes if wanted <= (each.metadata.labels or {}).items()]
    return tuple(sorted(found, key=lambda node: node.name))


def node_facts(node: GpuNode) -> NodeFacts:
    """Return the facts about a node."""
    status = node.status
    return NodeFacts(
        name=node.metadata.name,
        uid=node.metadata.uid,
        labels=node.metadata.labels or {},
        is_ready=status.is_true("Ready") and not node.metadata.terminating,
        gpus=_number(status.capacity.gpus),
        pressures=tuple(each for each in _PRESSURES if status.is_true(each)),
    )


def _number(quantity: str | int) -> int:
    """Return the whole number of GPUs."""
    text = str(quantity)
    return int(text) if text.isascii() and text.isdigit() else 0


_LASTS: Final = timedelta(minutes=10)
"""Age from which the loss of a node says nothing about its successor."""

_BACKOFF: Final = Backoff(base=10.0, cap=30.0)
"""Ages at which nodes are labelled, by the rounds in which nodes were lost."""


class NodeHistory(Struct, frozen=True):
    """The nodes of a Workspace, and how often new ones were lost. A restart forgets it.

    A node with GPUs is labelled, which is a request, and Karpenter replaces lost nodes at once, for
    ever. So where new ones were lost, the label of the next waits, up to half a minute: a node that
    is lost before costs nothing. Nodes that are lost together are one round.

    Attributes:
        since: times since which its nodes are known, by uid.
        rounds: consecutive times that new nodes were lost.
    """

    since: Mapping[str, datetime] = field(default_factory=dict[str, "datetime"])
    rounds: int = 0
    lost: datetime | None = None

    def after(self, uids: Collection[str], now: datetime) -> NodeHistory:
        """Return the history after these nodes were seen; a clock may go back."""
        since = {uid: min(self.since.get(uid, now), now) for uid in uids}
        gone = [self.since[uid] for uid in self.since.keys() - since.keys()]
        if any(now - each < _LASTS for each in gone):
            return NodeHistory(since, self.rounds + 1, now)
        if self.lost is None or now - self.lost >= _LASTS:
            return NodeHistory(since)
        return NodeHistory(since, self.rounds, min(self.lost, now))

    def wait(self, uid: str, now: datetime) -> float:
        """Return the seconds until a node is to be labelled."""
        if not self.rounds:
            return 0.0
        age = now - self.since.get(uid, now)
        return max(_BACKOFF.delay(self.rounds - 1) - age.total_seconds(), 0.0)


# The body of a NodeClaim.

NODE_TAINT: Final = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
_NODE_CLASSES: Final = {
    Cloud.AZURE: ("kaito.sh", "KaitoNodeClass"),
    Cloud.AWS: ("karpenter.k8s.aws", "EC2NodeClass"),
}


class NodeRequest(Struct, frozen=True):
    """The wanted properties of the nodes of a Workspace.

    Attributes:
        storage: size of their disks, a quantity.
    """

    instance_type: str
    node_labels: Mapping[str, str]
    storage: str
    image_family: str

    @property
    def template(self) -> str:
        """A text that distinguishes sets of claims: another machine, or other labels."""
        pairs = (f"{key}={self.node_labels[key]}" for key in sorted(self.node_labels))
        return " ".join([self.instance_type, *pairs])


def can_claim(cloud: Cloud) -> bool:
    """Return whether nodes can be claimed in a cloud at all."""
    return cloud in _NODE_CLASSES


def node_request(
    instance_type: str,
    node_labels: Mapping[str, str],
    storage: str,
    annotations: Mapping[str, str],
    options: KaitoOptions,
) -> NodeRequest:
    """Return the request, with the type's name as the cloud and its nodes write it (KAI-7)."""
    known = find_instance_type(options.cloud, instance_type)
    family = image_family(annotations.get(labels.NODE_IMAGE_FAMILY, ""))
    return NodeRequest(
        known.name if known else instance_type,
        node_labels,
        storage,
        family or image_family(options.node_image_family) or "ubuntu",
    )


def node_claim_body(
    name: str, request: NodeRequest, workspace: ObjectMeta, cloud: Cloud
) -> dict[str, Any]:
    """Return the body that is created.

    It has no owner reference: a cluster-scoped object cannot be owned by a namespaced one.
    `expireAfter` is written, because without it Karpenter replaces nodes after 30 days (KAI-1).
    The cloud must be one in which nodes can be claimed.
    """
    group, kind = _NODE_CLASSES[cloud]
    return {
        "apiVersion": NODE_CLAIMS.api_version,
        "kind": NODE_CLAIMS.kind,
        "metadata": {
            "name": name,
            "labels": {
                labels.NODE_POOL: labels.KAITO_NODE_POOL,
                labels.WORKSPACE: workspace.name,
                labels.WORKSPACE_NAMESPACE: workspace.namespace,
                **request.node_labels,
                OWNER_UID: workspace.uid,
            },
            "annotations": {
                labels.DO_NOT_DISRUPT: "true",
                labels.NODE_IMAGE_FAMILY: request.image_family,
            },
        },
        "spec": {
            "expireAfter": "Never",
            "nodeClassRef": {"name": "default", "kind": kind, "group": group},
            "taints": [dict(NODE_TAINT)],
            "requirements": _requirements(request, cloud),
            "resources": {"requests": {"storage": request.storage}},
        },
    }


def _requirements(request: NodeRequest, cloud: Cloud) -> list[dict[str, Any]]:
    requirements = [
        node_requirement(labels.NODE_POOL, "In", labels.KAITO_NODE_POOL),
        node_requirement(labels.INSTANCE_TYPE, "In", request.instance_type),
        node_requirement(labels.OPERATING_SYSTEM, "In", "linux"),
    ]
    if cloud is Cloud.AZURE:
        requirements.append(node_requirement(labels.AZURE_SKU, "In", request.instance_type))
    if cloud is Cloud.AWS:
        requirements.append(node_requirement(labels.AWS_GPU_COUNT, "Gt", "0"))
    return requirements


def node_requirement(key: str, operator: str, value: str) -> dict[str, Any]:
    """Return the requirement of a label of nodes with this value."""
    return {"key": key, "operator": operator, "values": [value]}


_SUFFIX: Final = 9
_LONGEST_POOL_NAME: Final = 63
"""Nodes have the name of their pool in a label."""


def claim_name(uid: str, place: int, generation: int, attempt: int) -> str:
    """Return the name of a NodeClaim, in Kaito's form: `ws` and nine hexadecimal digits.

    The generation counts replacements of the whole set; the attempt, those of this place since.
    """
    parts = (uid, str(place), str(generation), str(attempt))
    return f"ws{_digest('/'.join(parts))[:_SUFFIX]}"


def node_pool_name(namespace: str, name: str) -> str:
    """Return Kaito's name of a Workspace's NodePool. Two Workspaces may share one (KAI-9)."""
    full = f"{namespace}-{name}"
    if len(full) <= _LONGEST_POOL_NAME:
        return full
    return f"{full[: _LONGEST_POOL_NAME - 1 - _SUFFIX]}-{_digest(full)[:_SUFFIX]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
