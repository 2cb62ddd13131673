"""The progress of the nodes of a Workspace: one value, from which plan and status are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.kaito.presets import find_instance_type
from controller.kaito.provisioning.decision import ClaimFacts, decide_claims
from controller.kaito.provisioning.nodes import node_readiness, own_nodes
from controller.kaito.workspace.target import node_target

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.provisioning.decision import ClaimDecision
    from controller.kaito.provisioning.node_claim import NodeRequest
    from controller.kaito.provisioning.nodes import NodeReadiness
    from controller.kaito.workspace.observation import SeenClaims, WorkspaceObservation
    from controller.kaito.workspace.target import NodeTarget


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the nodes of a valid Workspace.

    Attributes:
        target: how many it needs.
        claims: the decision about its claims; None if none are made, or cannot be.
        nodes: whether its nodes are ready.
        lacks_claims: whether claims cannot be made, because the API server has no such resource.
    """

    target: NodeTarget
    claims: ClaimDecision | None
    nodes: NodeReadiness
    lacks_claims: bool = False

    @property
    def is_ready(self) -> bool:
        """True if the workload may be created."""
        if self.lacks_claims or not self.nodes.is_ready:
            return False
        return self.claims is None or not (self.claims.waits or self.claims.create)


def progress_of(seen: WorkspaceObservation, now: datetime) -> Progress:
    """The progress of a valid Workspace."""
    goal, target = seen.valid_goal, node_target(seen)
    options, instance_type = seen.settings.options, goal.spec.resource.instance_type
    known = find_instance_type(options.cloud, instance_type)
    has_gpus = known is not None and known.gpus.product.startswith("NVIDIA")
    readiness = node_readiness(seen.nodes, target.count, instance_type, has_gpus=has_gpus)
    if goal.request is None or seen.claims is None or not target.count:
        lacks_claims = goal.request is not None and seen.claims is None
        return Progress(target, None, readiness, lacks_claims)
    facts = _facts(seen, seen.claims, goal.request, target.count)
    return Progress(target, decide_claims(facts, now, seen.settings.claims), readiness)


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
    )
