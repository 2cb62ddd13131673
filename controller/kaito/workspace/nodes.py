"""The nodes that a Workspace has and wants, how far they have come, and what asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from controller.apimachinery.quantity import Family, Quantity, parse_quantity
from controller.kaito.api import labels
from controller.kaito.api.config_maps import longest_context
from controller.kaito.api.fields import FieldError, invalid_value, message_of, wrong
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS, NODES, NodeClassSettings
from controller.kaito.api.options import Provisioner, Runtime
from controller.kaito.api.status import Cause
from controller.kaito.presets.gpus import (
    DEFAULT_CONTEXT,
    DoesNotFit,
    NodeGPUs,
    UnknownGPUs,
    check_alike,
    estimate_nodes,
    find_instance_type,
)
from controller.kaito.presets.models import Model
from controller.kaito.provisioning.claims import MOST_NODES, Commitment, ObservedClaim
from controller.kaito.provisioning.decision import ClaimDecision, decide_claims
from controller.kaito.provisioning.nodes import (
    ACCELERATOR,
    NodeFacts,
    NodeHistory,
    NodeReadiness,
    node_claim_body,
    node_readiness,
    own_nodes,
)
from controller.kaito.provisioning.pool_decision import PoolDecision, decide_pool
from controller.kaito.provisioning.pools import ObservedPool, PoolCommitment, node_pool_body
from controller.kaito.workloads.server import workload_gpus
from controller.kaito.workspace.observation import (
    WorkspaceObservation,
    config_problem,
    missing_model,
)
from controller.runtime.plan import Create, Delete, Event, Lookup, MergePatch, Target, Write

_NANO = 10**9


def memory_errors(
    seen: WorkspaceObservation, model: Model, gpus: NodeGPUs, nodes: int
) -> Iterator[FieldError]:
    """Yield errors of weights that do not fit into all nodes, or into one, as Transformers needs.

    With the annotation `kaito.sh/bypass-resource-checks`, whatever its value, the memory of all
    nodes together is not judged.
    """
    goal, weights = seen.valid_goal, parse_quantity(model.weights)
    annotations = seen.workspace.metadata.annotations or {}
    preset = goal.preset.name if goal.preset else model.name
    total = gpus.memory * nodes
    if total < weights.value and labels.BYPASS_RESOURCE_CHECKS not in annotations:
        yield invalid_value(
            f"Insufficient total GPU memory: Instance type {goal.spec.resource.instance_type} has "
            f"a total of {Quantity(total * _NANO, Family.BINARY)}, but preset {preset} requires at "
            f"least {model.weights}",
            "instanceType",
        )
    if weights.value > gpus.memory:
        yield wrong(
            "Multi-node distributed inference is not supported with Huggingface Transformers "
            f"runtime, and preset {preset} requires at least {model.weights} of GPU memory on one "
            f"node, which has {Quantity(gpus.memory * _NANO, Family.BINARY)}",
            "instanceType",
        )


def node_target(seen: WorkspaceObservation) -> int | Cause:
    """Return the number of nodes that a Workspace needs, or why it is not known."""
    found = _decided(seen)
    if isinstance(found, Cause) or found <= MOST_NODES:
        return found
    message = (
        f"{found} nodes are requested, and a workspace gets at most {MOST_NODES}: use "
        "larger instances, or a smaller model"
    )
    return Cause("TooManyNodes", message)


def _decided(seen: WorkspaceObservation) -> int | Cause:
    """Return the committed number, or the one that Kaito has stored, else what the model needs.

    It is estimated once (KAI-8), so that a serving model does not lose its nodes when the estimate
    changes; hence the estimate waits for the options on which it depends.
    """
    commitment, request = _stored(seen), seen.valid_goal.request
    if commitment is not None and request is not None and commitment.template == request.template:
        return commitment.target
    stored = seen.status.get("targetNodeCount")
    if commitment is None and isinstance(stored, int) and stored > 0:
        return stored
    return config_problem(seen) or _estimated(seen)


def _stored(seen: WorkspaceObservation) -> Commitment | PoolCommitment | None:
    if seen.options.provisioner is not Provisioner.NODE_POOLS:
        return seen.commitment
    return seen.pool.commitment if seen.pool is not None else None


def _estimated(seen: WorkspaceObservation) -> int | Cause:
    goal = seen.valid_goal
    if goal.spec.tuning is not None:
        return 1
    if goal.preset is None:
        return goal.spec.resource.count or 1
    if goal.model is None:
        return missing_model(seen)
    try:
        return _nodes_for(goal.model, seen)
    except UnknownGPUs as error:
        return Cause("NodeNotReady", str(error))
    except DoesNotFit as error:
        return Cause("ModelDoesNotFit", str(error))


def _nodes_for(model: Model, seen: WorkspaceObservation) -> int:
    """Return the number of nodes: vLLM spreads a model over several; otherwise it is the user's."""
    goal, gpus = seen.valid_goal, _gpus(seen)
    if goal.runtime is Runtime.VLLM:
        context = longest_context(seen.workload.config or {}) or DEFAULT_CONTEXT
        return estimate_nodes(model, gpus, context)
    nodes = goal.spec.resource.count or 1
    errors = tuple(memory_errors(seen, model, gpus, nodes))
    if errors:
        raise DoesNotFit(message_of(errors))
    return nodes


def _gpus(seen: WorkspaceObservation) -> NodeGPUs:
    """Return the GPUs of each node; those of one's own must be known and alike."""
    resource, options = seen.valid_goal.spec.resource, seen.options
    ready = [(node.name, node.labels) for node in seen.nodes if node.is_ready]
    if options.has_own_nodes and resource.partition is None:
        check_alike(ready)
    return workload_gpus(resource, options, ready[0] if ready else None)


class NodeProgress(Struct, frozen=True):
    """The progress of the nodes of a valid Workspace, from which plan and status are made.

    Attributes:
        target: the number of nodes; 0 if it is not known.
        unknown: why it is not known; None if it is.
        workers: the nodes on which its workload may run.
        claims: the decision about its claims; None if none are made, or cannot be.
        pool: the decision about its NodePool; None if none is made, or cannot be.
        requests: the objects with which nodes are asked for.
    """

    target: int
    unknown: Cause | None
    nodes: NodeReadiness
    workers: tuple[NodeFacts, ...]
    claims: ClaimDecision | None = None
    pool: PoolDecision | None = None
    history: NodeHistory = field(default_factory=NodeHistory)
    requests: str = "NodeClaims"
    lacks_resource: bool = False

    @property
    def is_ready(self) -> bool:
        """True if the workload may be created."""
        if self.lacks_resource or not self.nodes.is_true:
            return False
        if self.pool is not None:
            return self.pool.wait is None
        return self.claims is None or not (self.claims.waits or self.claims.create)

    @property
    def uses_earlier_nodes(self) -> bool:
        """True if some of the nodes did not come with the NodePool, and have other labels."""
        return self.pool is not None and self.pool.commitment.covered > 0


def progress_of(seen: WorkspaceObservation, now: datetime) -> NodeProgress:
    """Return the progress of a valid Workspace.

    Nothing is decided for a model about which nothing is known yet.
    """
    request, found = seen.valid_goal.request, node_target(seen)
    target, unknown = (0, found) if isinstance(found, Cause) else (found, None)
    pool, claims, workers = None, None, seen.nodes
    is_pool = seen.options.provisioner is Provisioner.NODE_POOLS
    if request is not None and target and not seen.valid_goal.lacks_model:
        own = own_nodes(seen.nodes, request.instance_type)
        wanted: dict[str, Any] = {
            "target": target,
            "template": request.template,
            "ready_nodes": frozenset(node.name for node in own if node.is_ready),
            "existing_nodes": frozenset(node.name for node in own),
        }
        if is_pool and seen.pool is not None:
            wanted["instance_type"] = request.instance_type
            wanted["earlier_claims"] = seen.claims.claims if seen.claims is not None else {}
            pool = decide_pool(replace(seen.pool, **wanted))
            committed = pool.commitment.nodes
            workers = tuple(
                node for node in seen.nodes if node.has_workspace or node.name in committed
            )
        elif not is_pool and seen.claims is not None:
            claims = decide_claims(replace(seen.claims, **wanted), now)
    return NodeProgress(
        target,
        unknown,
        _readiness(seen, workers, target),
        workers,
        claims,
        pool,
        seen.memory.nodes.after({node.uid for node in workers if node.is_claimed}, now),
        requests="NodePools" if is_pool else "NodeClaims",
        lacks_resource=request is not None and (seen.pool if is_pool else seen.claims) is None,
    )


def _readiness(
    seen: WorkspaceObservation, nodes: tuple[NodeFacts, ...], target: int
) -> NodeReadiness:
    instance_type = seen.valid_goal.spec.resource.instance_type
    known = find_instance_type(seen.options.cloud, instance_type)
    has_gpus = known is not None and known.gpus.product.startswith("NVIDIA")
    return node_readiness(nodes, target, instance_type, has_gpus=has_gpus)


POOL_SCOPE: Final = "node-pool"
"""Scope of writes to the NodePool: while the outcome of one is unknown, none is sent."""


def node_class_scope(name: str) -> str:
    """Return the scope of the creation of a NodeClass."""
    return f"node-class/{name}"


CLAIM_SCOPE: Final = "claim/"
"""Before the name of a claim: the scope of its writes. A lost response blocks one claim only."""


def claim_target(name: str) -> Target:
    """Return a claim as the target of a write."""
    return Target(NODE_CLAIMS, "", name, scope=f"{CLAIM_SCOPE}{name}")


def request_nodes(seen: WorkspaceObservation, progress: NodeProgress) -> Iterator[Create]:
    """Yield creates of the claims, or of the pool, that are due.

    Where claims are lost again and again, events do not name them: equal ones are one series.
    """
    request, claims, pool = seen.valid_goal.request, progress.claims, progress.pool
    if request is None:
        return
    workspace, options = seen.workspace.metadata, seen.options
    for name in claims.create if claims is not None else ():
        what = "another NodeClaim" if claims and claims.again else f"NodeClaim {name}"
        note = f"created {what} for {request.instance_type}"
        event = Event("Normal", "NodeClaimCreated", "Create", note)
        body = node_claim_body(name, request, workspace, options.cloud)
        yield Create(claim_target(name), body, on_success=event)
    if pool is not None and pool.create:
        replicas = pool.commitment.replicas
        body = node_pool_body(workspace, request, replicas, options.node_classes)
        name: str = body["metadata"]["name"]
        note = f"created NodePool {name} for {replicas} of {request.instance_type}"
        event = Event("Normal", "NodePoolCreated", "Create", note)
        yield Create(pool_target(name), body, on_success=event)


def change_requests(seen: WorkspaceObservation, progress: NodeProgress) -> Iterator[Write]:
    """Yield the other writes: what is deleted, a larger pool, the NodeClass that is missing."""
    claims, decision, pool = progress.claims, progress.pool, seen.pool
    if claims is not None:
        yield from delete_claims(claims.delete, "it is no longer wanted", again=claims.again)
    if decision is None or pool is None:
        return
    if decision.create_class:
        yield from _create_class(pool.node_class.name, seen.options.node_classes)
    if pool.found is not None and decision.grow:
        yield _grow(pool.found, decision.commitment.replicas)
    if pool.found is not None and decision.delete:
        yield delete_pool(pool.found, "other nodes are asked for")


def delete_claims(
    claims: Iterable[ObservedClaim], why: str, *, again: bool = False
) -> Iterator[Delete]:
    """Yield deletes of these claims; `again` if claims are lost again and again."""
    for claim in claims:
        what = "another NodeClaim" if again else f"NodeClaim {claim.name}"
        note = f"deleted {what}: {claim.message or why}"
        event = Event("Normal", "NodeClaimDeleted", "Delete", note)
        yield Delete(claim_target(claim.name), claim.uid, on_success=event)


def look_up_claims(names: Iterable[str]) -> tuple[Lookup, ...]:
    """Return live reads of the claims of these names."""
    return tuple(Lookup(claim_target(name)) for name in names)


def label_waits(
    seen: WorkspaceObservation, progress: NodeProgress, now: datetime
) -> dict[str, float]:
    """Return the seconds until the nodes without the label of their accelerator get it, by name."""
    uids = {node.name: node.uid for node in seen.nodes}
    return {name: progress.history.wait(uids[name], now) for name in progress.nodes.to_label}


def label_nodes(seen: WorkspaceObservation, names: Iterable[str]) -> Iterator[MergePatch]:
    """Yield patches that label the accelerator of these nodes."""
    by_name = {node.name: node for node in seen.nodes}
    patch = {"metadata": {"labels": {labels.ACCELERATOR: ACCELERATOR}}}
    for name in names:
        target = Target(NODES, "", name, scope=f"node/{name}")
        yield MergePatch(target, by_name[name].uid, patch)


def pool_target(name: str) -> Target:
    """Return a NodePool as the target of a write."""
    return Target(NODE_POOLS, "", name, scope=POOL_SCOPE)


def look_up_lost(decision: PoolDecision) -> tuple[Lookup, ...]:
    """Return live reads of the nodes and claims that must certainly be gone."""
    nodes = (Lookup(Target(NODES, "", name)) for name in decision.confirm_nodes)
    return (*nodes, *look_up_claims(decision.confirm_claims))


def delete_pool(pool: ObservedPool, why: str) -> Delete:
    """Return the delete of a pool, by its uid."""
    event = Event("Normal", "NodePoolDeleted", "Delete", f"deleted NodePool {pool.name}: {why}")
    return Delete(pool_target(pool.name), pool.uid, on_success=event)


def _grow(pool: ObservedPool, replicas: int) -> MergePatch:
    """Return the patch that gives a pool more nodes; it never removes any."""
    note = f"NodePool {pool.name} gets {replicas} nodes instead of {pool.replicas}"
    event, patch = (
        Event("Normal", "NodePoolScaled", "Update", note),
        {"spec": {"replicas": replicas}},
    )
    target, version = pool_target(pool.name), pool.resource_version
    return MergePatch(target, pool.uid, patch, resource_version=version, on_success=event)


def _create_class(name: str, classes: NodeClassSettings) -> Iterator[Create]:
    body = classes.body(name)
    if body is not None:
        target = Target(classes.resource, "", name, scope=node_class_scope(name))
        event = Event("Normal", "NodeClassCreated", "Create", f"created {classes.kind} {name}")
        yield Create(target, body, on_success=event)
