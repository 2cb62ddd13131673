"""The parts of trees and tables, and what Workspaces and InferenceSets contribute to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from controller.apimachinery.conditions import find_condition
from controller.command.status.reading import Seen
from controller.kaito.api import labels
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.karpenter import NODE_CLAIMS, NodeClaim
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.objects import Job, KubeObject, Pod, StatefulSet
from controller.kube.resources import JOBS, STATEFUL_SETS, Resource


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A pod: `state` is `ready`, `deleting`, `draining`, or the reason why it is not ready."""

    name: str
    state: str
    cause: str
    node: str
    restarts: int
    created: str


class GroupStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The head, whose name is `headgroup`, or a group of workers; CPUs and GPUs as specified."""

    name: str
    desired: int
    ready: int
    cpus: str
    gpus: str
    pods: tuple[PodStatus, ...]


class ObjectStatus(msgspec.Struct, frozen=True, rename="camel"):
    """An object of one of the kinds, or what belongs to it.

    Attributes:
        state: one word or two.
        detail: what else its kind says in short; may be empty.
        cause: the first cause why it is not as specified; empty if it is, or nothing tells.
        created: when it was created, RFC 3339.
        cpus: CPUs that it asks for, and GPUs; empty if its status does not say.
        notes: what other conditions report.
        pods: pods that are of no group, such as a job's submitter.
    """

    kind: str
    namespace: str
    name: str
    state: str
    detail: str
    cause: str
    created: str
    cpus: str
    gpus: str
    notes: tuple[str, ...] = ()
    children: tuple[ObjectStatus, ...] = ()
    groups: tuple[GroupStatus, ...] = ()
    pods: tuple[PodStatus, ...] = ()


class EventStatus(msgspec.Struct, frozen=True, rename="camel"):
    """An event about an object of the tree."""

    time: datetime
    type: str
    reason: str
    object: str
    note: str
    count: int


class Tree(msgspec.Struct, frozen=True, rename="camel"):
    """An object, the last events about it and what belongs to it, and what could not be read."""

    object: ObjectStatus
    events: tuple[EventStatus, ...]
    missing: tuple[str, ...]


class Overview(msgspec.Struct, frozen=True, rename="camel"):
    """Objects without what belongs to them, each after its owner; what could not be read."""

    objects: tuple[ObjectStatus, ...]
    missing: tuple[str, ...]


_CAUSES: Final = ("Ready", "ResourceReady", "InferenceReady", "JobStarted", "WorkspaceSucceeded")
"""Conditions that may hold the first cause, in the order in which a Workspace reaches them."""
_SET_READY: Final = "InferenceSetReady"
USUAL: Final = (*_CAUSES, "NodeClaimReady", "NodesReady", "BenchmarkCompleted", _SET_READY)
"""Conditions that such an object usually has."""
_STATES: Final = {"Ready": "ready", "NotReady": "not ready", "Pending": "starting"}
_WELL: Final = frozenset({"Ready", "Running", "Succeeded"})
_NAMES: Final = (
    (labels.WORKSPACE, labels.WORKSPACE_NAMESPACE),
    (labels.POOL_WORKSPACE, labels.POOL_WORKSPACE_NAMESPACE),
)
"""Labels of claims with name and namespace of their Workspace, without and with a NodePool."""
_ENDS: Final = frozenset({"Complete", "Failed"})


def model_state(status: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> str:
    """Return the state of a Workspace or an InferenceSet in a word or two."""
    if (of_set := find_condition(conditions, _SET_READY)) is not None:
        return "ready" if of_set.get("status") == "True" else "not ready"
    state = str(status.get("state") or "new")
    return _STATES.get(state, state)


def model_cause(status: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> str:
    """Return the first cause that the operator, or Kaito's, has stored; empty without one."""
    if status.get("state") in _WELL:
        return ""
    found = (find_condition(conditions, each) for each in (*_CAUSES, _SET_READY))
    for each in found:
        if each is not None and each.get("status") == "False":
            return str(each.get("message", ""))
    return ""


def model_detail(resource: Resource[Any], status: Mapping[str, Any]) -> str:
    """Return how much of it there is, in short."""
    if resource is INFERENCE_SETS and "replicas" in status:
        return f"{status.get('readyReplicas', 0)} of {status['replicas']} replicas ready"
    if resource is WORKSPACES and status.get("targetNodeCount"):
        return f"{len(status.get('workerNodes') or ())} of {status['targetNodeCount']} nodes"
    return ""


def claims_of(seen: Seen, workspace: KubeObject) -> Iterator[tuple[NodeClaim, ObjectStatus]]:
    """Yield the NodeClaims of a Workspace."""
    meta = workspace.metadata
    claims: list[NodeClaim] = seen.every(NODE_CLAIMS)
    for claim in claims:
        given = claim.metadata.labels or {}
        if any((given.get(a), given.get(b)) == (meta.name, meta.namespace) for a, b in _NAMES):
            yield claim, claim_status(claim)


def claim_status(claim: NodeClaim) -> ObjectStatus:
    """Return the state of a NodeClaim, its node, and the cause why it is not ready."""
    ready = claim.status.condition("Ready") or claim.status.condition("Launched")
    is_ready = ready is not None and ready.type == "Ready" and ready.status == "True"
    node = claim.status.node_name
    return _status(
        "NodeClaim",
        claim,
        "ready" if is_ready else "starting",
        f"node {node}" if node else "",
        "" if is_ready or ready is None else ready.message or ready.reason,
    )


def workloads_of(seen: Seen, workspace: KubeObject) -> Iterator[tuple[KubeObject, ObjectStatus]]:
    """Yield the model server or the tuning job of a Workspace, without their pods."""
    for found in (*seen.every(STATEFUL_SETS), *seen.every(JOBS)):
        owner = found.metadata.controller
        if owner is not None and owner.uid == workspace.metadata.uid:
            yield found, workload_status(found)


def workload_status(found: StatefulSet | Job) -> ObjectStatus:
    """Return the state of a model server or a tuning job."""
    if isinstance(found, StatefulSet):
        desired = 1 if found.spec.replicas is None else found.spec.replicas
        ready = found.status.ready_replicas
        state = "ready" if ready >= desired else "starting"
        return _status("StatefulSet", found, state, f"{ready} of {desired} pods ready")
    end = next(
        (each for each in found.status.conditions if each.status == "True" and each.type in _ENDS),
        None,
    )
    if end is not None:
        return _status("Job", found, end.type, "", end.message if end.type == "Failed" else "")
    return _status("Job", found, "Running" if found.status.active else "starting")


def _status(
    kind: str, obj: KubeObject, state: str, detail: str = "", cause: str = ""
) -> ObjectStatus:
    meta = obj.metadata
    state = "deleting" if meta.terminating else state
    created = meta.creation_timestamp or ""
    return ObjectStatus(kind, meta.namespace, meta.name, state, detail, cause, created, "", "")


def is_of_workspace(pod: Pod, workspace: KubeObject) -> bool:
    """Return whether the pod's label names this Workspace."""
    name = (pod.metadata.labels or {}).get(labels.WORKSPACE)
    return (name, pod.metadata.namespace) == (workspace.metadata.name, workspace.metadata.namespace)
