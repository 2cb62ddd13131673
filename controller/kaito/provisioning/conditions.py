"""The conditions of a Workspace about the progress of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.timestamps import rfc3339
from controller.kaito.provisioning.claims import BENIGN_REASONS

if TYPE_CHECKING:
    from controller.kaito.provisioning.decision import ClaimDecision, ClaimWait
    from controller.kaito.provisioning.nodes import NodeReadiness
    from controller.kaito.provisioning.pool_decision import PoolWait

NODE_CLAIM_READY: Final = "NodeClaimReady"
NODES_READY: Final = "NodesReady"
RESOURCE_READY: Final = "ResourceReady"


@dataclass(frozen=True, slots=True)
class ConditionFacts:
    """One condition, but for its times."""

    type: str
    is_true: bool
    reason: str
    message: str


def claim_condition(decision: ClaimDecision) -> ConditionFacts:
    """Return `NodeClaimReady`; a cause that a person can remove comes first."""
    if not decision.waits and not decision.create and decision.commitment.target:
        message = "Enough NodeClaims are ready"
        return ConditionFacts(
            NODE_CLAIM_READY, is_true=True, reason="NodeClaimsReady", message=message
        )
    cause = first_wait(decision)
    if cause is None or cause.reason in BENIGN_REASONS:
        reason, message = "NodeClaimNotReady", "Ready NodeClaims are not enough"
    else:
        reason, message = cause.reason, cause.message
    if cause is not None:
        message = f"{message}; {cause.claim}: waiting until {_awaited(cause)}"
    return ConditionFacts(NODE_CLAIM_READY, is_true=False, reason=reason, message=message)


def pool_condition(wait: PoolWait | None) -> ConditionFacts:
    """Return `NodeClaimReady` for claims that a NodePool creates."""
    if wait is None:
        message = "Enough NodeClaims are ready"
        return ConditionFacts(
            NODE_CLAIM_READY, is_true=True, reason="NodeClaimsReady", message=message
        )
    if wait.reason:
        return ConditionFacts(NODE_CLAIM_READY, False, wait.reason, wait.message)
    message = f"Ready NodeClaims are not enough; {wait.message}"
    return ConditionFacts(NODE_CLAIM_READY, False, "NodeClaimNotReady", message)


def first_wait(decision: ClaimDecision) -> ClaimWait | None:
    """Return the wait that explains most: the first with an error, else the first."""
    errors = [wait for wait in decision.waits if wait.reason not in BENIGN_REASONS]
    return next(iter(errors or decision.waits), None)


def node_condition(readiness: NodeReadiness) -> ConditionFacts:
    """Return `NodesReady`."""
    return ConditionFacts(NODES_READY, readiness.is_ready, readiness.reason, readiness.message)


def resource_condition(*parts: ConditionFacts) -> ConditionFacts:
    """Return `ResourceReady`: true if all parts are, else the first that is not."""
    for part in parts:
        if not part.is_true:
            return ConditionFacts(
                RESOURCE_READY, is_true=False, reason=part.reason, message=part.message
            )
    message = "workspace resource is ready"
    return ConditionFacts(
        RESOURCE_READY, is_true=True, reason="workspaceResourceStatusSuccess", message=message
    )


def _awaited(wait: ClaimWait) -> str:
    until = f", at {rfc3339(wait.until)}" if wait.until else ""
    return f"{wait.awaited.value}{until}"
