"""Writes to the NodeClaims and nodes of a Workspace.

Where claims are lost again and again, events do not name them, so that equal ones are one series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.api import labels
from controller.kaito.api.karpenter.nodeclaim import NODE_CLAIMS
from controller.kaito.api.node import NODES
from controller.kaito.provisioning.node_claim import node_claim_body
from controller.kaito.provisioning.nodes import ACCELERATOR
from controller.runtime.plan import Create, Delete, Event, Lookup, MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from controller.kaito.presets import Cloud
    from controller.kaito.provisioning.claims import ObservedClaim
    from controller.kaito.provisioning.decision import ClaimDecision
    from controller.kaito.provisioning.node_claim import NodeRequest
    from controller.kaito.workspace.nodes.progress import NodeProgress
    from controller.kaito.workspace.observation import WorkspaceObservation
    from controller.kube.objects import ObjectMeta

CLAIM_CREATED: Final = "NodeClaimCreated"

CLAIM_SCOPE: Final = "claim/"
"""Before the name of a claim: the scope of its writes. A lost response blocks one claim only."""


def claim_target(name: str) -> Target:
    """Return a claim as the target of a write."""
    return Target(NODE_CLAIMS, "", name, scope=f"{CLAIM_SCOPE}{name}")


def create_claims(
    decision: ClaimDecision, request: NodeRequest, workspace: ObjectMeta, cloud: Cloud
) -> Iterator[Create]:
    """Yield creates of the claims that are due."""
    for name in decision.create:
        what = "another NodeClaim" if decision.again else f"NodeClaim {name}"
        note = f"created {what} for {request.instance_type}"
        yield Create(
            claim_target(name),
            node_claim_body(name, request, workspace, cloud),
            on_success=Event("Normal", CLAIM_CREATED, "Create", note),
        )


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
