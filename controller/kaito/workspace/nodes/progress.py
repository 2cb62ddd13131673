"""The progress of the nodes of a Workspace: one value, from which plan and status are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.kaito.api.options import Provisioner
from controller.kaito.presets import find_instance_type
from controller.kaito.provisioning.claim_facts import ClaimFacts
from controller.kaito.provisioning.decision import decide_claims
from controller.kaito.provisioning.node_history import NodeHistory
from controller.kaito.provisioning.nodes import node_readiness, own_nodes
from controller.kaito.provisioning.pool_decision import PoolFacts, decide_pool
from controller.kaito.workspace.nodes.target import node_target

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.provisioning.decision import ClaimDecision
    from controller.kaito.provisioning.node_claim import NodeRequest
    from controller.kaito.provisioning.nodes import NodeFacts, NodeReadiness
    from controller.kaito.provisioning.pool_decision import PoolDecision
    from controller.kaito.workspace.nodes.target import NodeTarget
    from controller.kaito.workspace.observation import (
        SeenClaims,
        SeenPool,
        WorkspaceObservation,
    )


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """The progress of the nodes of a valid Workspace.

    Attributes:
        target: number of nodes that it needs.
        nodes: whether its nodes are ready.
        workers: the nodes on which its workload may run.
        claims: the decision about its claims; None if none are made, or cannot be.
        pool: the decision about its NodePool; None if none is made, or cannot be.
        history: the nodes that were there before, and these.
        requests: the objects with which nodes are asked for.
        lacks_resource: whether the API server lacks the resource by which nodes are requested.
    """

    target: NodeTarget
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
        if self.lacks_resource or not self.nodes.is_ready:
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
    request, target = seen.valid_goal.request, node_target(seen)
    pool, claims, workers = None, None, seen.nodes
    is_pool = seen.settings.options.provisioner is Provisioner.NODE_POOLS
    if request is not None and target.count and not seen.valid_goal.lacks_model:
        if is_pool and seen.pool is not None:
            pool = decide_pool(_pool_facts(seen, seen.pool, request, target.count))
            committed = pool.commitment.nodes
            workers = tuple(
                node for node in seen.nodes if node.has_workspace or node.name in committed
            )
        elif not is_pool and seen.claims is not None:
            facts = _facts(seen, seen.claims, request, target.count)
            claims = decide_claims(facts, now, seen.settings.claims)
    return NodeProgress(
        target,
        _readiness(seen, workers, target.count),
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
    known = find_instance_type(seen.settings.options.cloud, instance_type)
    has_gpus = known is not None and known.gpus.product.startswith("NVIDIA")
    return node_readiness(nodes, target, instance_type, has_gpus=has_gpus)


def _facts(
    seen: WorkspaceObservation, claims: SeenClaims, request: NodeRequest, target: int
) -> ClaimFacts:
    own = own_nodes(seen.nodes, request.instance_type)
    return ClaimFacts(
        uid=seen.workspace.metadata.uid,
        target=target,
        template=request.template,
        commitment=seen.commitment,
        claims=claims.by_name,
        ready_nodes=frozenset(node.name for node in own if node.is_ready),
        existing_nodes=frozenset(node.name for node in own),
        pending=claims.pending,
        absent=claims.absent,
        conflicts=claims.conflicts,
        process=seen.process,
        remembered=seen.memory.slots,
    )


def _pool_facts(
    seen: WorkspaceObservation, pool: SeenPool, request: NodeRequest, target: int
) -> PoolFacts:
    own = own_nodes(seen.nodes, request.instance_type)
    return PoolFacts(
        name=pool.name,
        target=target,
        instance_type=request.instance_type,
        template=request.template,
        commitment=pool.commitment,
        pool=pool.found,
        is_unreadable=pool.is_unreadable,
        is_pending=pool.is_pending,
        is_taken=pool.is_taken,
        claims=pool.claims,
        node_class=pool.node_class,
        ready_nodes=frozenset(node.name for node in own if node.is_ready),
        existing_nodes=frozenset(node.name for node in own),
        earlier_claims=seen.claims.by_name if seen.claims is not None else {},
        absent=pool.absent,
        unsure=pool.unsure,
    )
