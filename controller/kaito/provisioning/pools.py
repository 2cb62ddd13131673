"""The state of a NodePool and its owner."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from controller.apimachinery.conditions import READY, time_of
from controller.apimachinery.metadata import OWNER_UID
from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_POOLS, NodeClassSettings, NodePool
from controller.kaito.api.labels import name_in
from controller.kaito.provisioning.claims import MOST_NODES, ObservedClaim, Owner, Stored, owner_of
from controller.kaito.provisioning.nodes import (
    NODE_TAINT,
    NodeRequest,
    node_pool_name,
    node_requirement,
)
from controller.kube.objects import ObjectMeta

_FIRST_CLAIMS: Final = timedelta(seconds=10)
"""The time after the creation of a pool in which its first claims are created; later ones replace
them."""

_LATELY: Final = timedelta(minutes=10)


class ObservedPool(msgspec.Struct, frozen=True):
    """The NodePool that has the name of a Workspace's.

    Attributes:
        owner_text: the same, as messages name it.
        replicas: number of its nodes; None if it is not static.
        template: the mark of the machine and the labels that it is for; empty without one, or if
            it has others itself.
        instance_types: instance types of its nodes; empty if it does not require any.
        reason: why it is not ready, in one word; empty if it is, or has not said.
    """

    name: str
    uid: str
    resource_version: str = ""
    created: datetime | None = None
    owner: Owner = Owner.THIS
    owner_text: str = ""
    replicas: int | None = None
    template: str = ""
    instance_types: tuple[str, ...] = ()
    is_terminating: bool = False
    reason: str = ""
    message: str = ""

    def is_for(self, instance_type: str) -> bool:
        """Return whether its nodes are such machines, in any case; unknown ones may be (KAI-7)."""
        return _may_be(instance_type, self.instance_types)


def is_replacing(pool: ObservedPool, claims: Iterable[ObservedClaim], now: datetime) -> bool:
    """Return whether Karpenter replaces claims of a pool that were lost, or lately has.

    There are none at the moment, or some are new while the pool is not. So are those of a pool that
    has grown.
    """
    if pool.created is None or now - pool.created < _FIRST_CLAIMS:
        return False
    begun = pool.created + _FIRST_CLAIMS
    created = [each.created for each in claims]
    return not created or any(
        each is not None and each > max(begun, now - _LATELY) for each in created
    )


def observed_pool(pool: NodePool, workspace: ObjectMeta) -> ObservedPool:
    """Return the facts about a pool on which decisions depend."""
    meta, ready = pool.metadata, _not_ready(pool)
    named = name_in(pool, labels.POOL_WORKSPACE, labels.POOL_WORKSPACE_NAMESPACE)
    owner = owner_of(meta, named, workspace)
    other = f"Workspace {named[0]}" if named else owner.value
    return ObservedPool(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        created=time_of(meta.creation_timestamp),
        owner=owner,
        owner_text=other if owner is Owner.OTHER else owner.value,
        replicas=pool.spec.replicas,
        template=_mark(pool),
        instance_types=_instance_types(pool),
        is_terminating=meta.terminating,
        reason=ready[0],
        message=ready[1],
    )


def _mark(pool: NodePool) -> str:
    """Return the mark, unless another client has changed it: the pool has what it names."""
    mark = (pool.metadata.annotations or {}).get(labels.NODE_TEMPLATE, "")
    machine, *marks = mark.split(" ")
    own = pool.spec.template.metadata.labels
    has_labels = not own or set(marks) <= {f"{key}={value}" for key, value in own.items()}
    return mark if has_labels and _may_be(machine, _instance_types(pool)) else ""


def _may_be(instance_type: str, known: tuple[str, ...]) -> bool:
    return not known or instance_type.lower() in {each.lower() for each in known}


def _instance_types(pool: NodePool) -> tuple[str, ...]:
    for each in pool.spec.template.spec.requirements:
        if each.key == labels.INSTANCE_TYPE and each.operator == "In":
            return each.values
    return ()


def _not_ready(pool: NodePool) -> tuple[str, str]:
    """Return reason and message of the condition Ready, empty unless it is False."""
    found = pool.status.condition(READY)
    if found is None or found.status != "False":
        return "", ""
    return found.reason or "NodePoolNotReady", found.message


class PoolCommitment(Stored, frozen=True):
    """The committed size of a Workspace's NodePool, an annotation; stored before it is created.

    Attributes:
        template: the machine and the labels; another one leads to another pool.
        replicas: number of nodes of the pool. It only grows.
        nodes: names of nodes that were there before.
        claims: names of claims that were there before, made without a pool.
    """

    target: int
    template: str = ""
    replicas: int = 0
    nodes: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()

    @property
    def covered(self) -> int:
        """The number of nodes that the pool need not have."""
        return len(self.nodes) + len(self.claims)


def read_pool_commitment(text: str | None) -> PoolCommitment | None:
    """Return the size in an annotation; None if there is none or it is implausible."""
    try:
        found = msgspec.json.decode(text or "", type=PoolCommitment)
    except (msgspec.DecodeError, ValueError):
        return None
    return found if 0 <= found.replicas <= found.target <= MOST_NODES else None


def node_pool_body(
    workspace: ObjectMeta, request: NodeRequest, replicas: int, classes: NodeClassSettings
) -> dict[str, Any]:
    """Return the body that is created: Kaito's, besides the uid of the Workspace and the mark.

    `expireAfter` is written, because without it Karpenter replaces nodes after 30 days (KAI-1).
    """
    owner = _owner_labels(workspace)
    manager = {labels.POOL_MANAGED_BY: labels.POOL_MANAGER}
    node_class = classes.chosen_name(workspace.annotations or {})
    return {
        "apiVersion": NODE_POOLS.api_version,
        "kind": NODE_POOLS.kind,
        "metadata": {
            "name": node_pool_name(workspace.namespace, workspace.name),
            "labels": {**manager, **owner},
            "annotations": {labels.NODE_TEMPLATE: request.template},
        },
        "spec": {
            "replicas": replicas,
            "template": {
                "metadata": {"labels": {**request.node_labels, **owner}},
                "spec": {
                    "expireAfter": "Never",
                    "nodeClassRef": {
                        "group": classes.group,
                        "kind": classes.kind,
                        "name": node_class,
                    },
                    "requirements": _requirements(request, classes),
                    "taints": [dict(NODE_TAINT)],
                },
            },
            "disruption": {"consolidateAfter": "0s", "budgets": [_drift_budget(workspace)]},
        },
    }


def _owner_labels(workspace: ObjectMeta) -> dict[str, str]:
    own = {
        labels.POOL_WORKSPACE: workspace.name,
        labels.POOL_WORKSPACE_NAMESPACE: workspace.namespace,
        OWNER_UID: workspace.uid,
    }
    inference_set = _inference_set(workspace)
    if inference_set is not None:
        own[labels.POOL_INFERENCE_SET] = inference_set
        own[labels.POOL_INFERENCE_SET_NAMESPACE] = workspace.namespace
    return own


def _inference_set(workspace: ObjectMeta) -> str | None:
    """Return the InferenceSet that has created the Workspace; None if none has."""
    return (workspace.labels or {}).get(labels.CREATED_BY_INFERENCE_SET)


def _drift_budget(workspace: ObjectMeta) -> dict[str, Any]:
    """Return how many nodes Karpenter may replace at a time because they have drifted.

    Replicas of an InferenceSet would all be replaced at once, so there it replaces none.
    """
    nodes = "1" if _inference_set(workspace) is None else "0"
    return {"nodes": nodes, "reasons": ["Drifted"]}


def _requirements(request: NodeRequest, classes: NodeClassSettings) -> list[dict[str, Any]]:
    requirements = [node_requirement(labels.INSTANCE_TYPE, "In", request.instance_type)]
    if classes.group == "karpenter.azure.com":
        requirements.append(node_requirement(labels.AZURE_PLACEMENT_SCOPE, "In", "regional"))
    return requirements
