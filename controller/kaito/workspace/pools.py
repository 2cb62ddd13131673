"""The NodePools and NodeClaims of Workspaces: what is seen of them and written to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.ownership import owner_uid
from controller.kaito.api import labels
from controller.kaito.api.karpenter import (
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    POOL_CLAIMS,
    NodeClass,
    NodeClassSettings,
)
from controller.kaito.api.messages import Cause
from controller.kaito.provisioning.claims import ObservedClaim, observed_claim
from controller.kaito.provisioning.decision import BY_POOL_WORKSPACE, ClaimDecision
from controller.kaito.provisioning.nodes import (
    ACCELERATOR,
    NodeRequest,
    node_claim_body,
    node_pool_name,
)
from controller.kaito.provisioning.pool_decision import ObservedNodeClass, PoolDecision, PoolFacts
from controller.kaito.provisioning.pools import (
    ObservedPool,
    PoolCommitment,
    node_pool_body,
    observed_pool,
)
from controller.runtime.plan import Create, Delete, Event, Lookup, MergePatch, Target, Write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from controller.kaito.presets.gpus import Cloud
    from controller.kaito.workspace.nodes import NodeProgress
    from controller.kaito.workspace.observation import WorkspaceObservation
    from controller.kube.objects import ObjectMeta
    from controller.runtime.kind import CacheReader


# Gathers what there is of a Workspace's NodePool from the caches.

SCOPE: Final = "node-pool"
"""Scope of writes to the NodePool: while the outcome of one is unknown, none is sent."""

_NOT_READY: Final = "NodeClassNotReady"


def node_class_scope(name: str) -> str:
    """Return the scope of the creation of a NodeClass."""
    return f"node-class/{name}"


def serves_pools(reads: CacheReader) -> bool:
    """Return whether the API server has what NodePools need."""
    return reads.serves(NODE_POOLS) and reads.serves(POOL_CLAIMS)


def observe_pool(
    workspace: ObjectMeta,
    commitment: PoolCommitment | None,
    classes: NodeClassSettings,
    reads: CacheReader,
) -> PoolFacts:
    """Read the pool that has the Workspace's name, its claims and its NodeClass."""
    name = node_pool_name(workspace.namespace, workspace.name)
    found = reads.get(NODE_POOLS, name)
    scopes = reads.pending_scopes(workspace.uid)
    return PoolFacts(
        name=name,
        commitment=commitment,
        found=observed_pool(found, workspace) if found is not None else None,
        is_pending=SCOPE in scopes,
        is_taken=found is None and reads.has_name_conflict(NODE_POOLS, name),
        is_absent=found is None and reads.looked_up_absent(NODE_POOLS, name),
        claims=_claims(workspace, reads),
        node_class=_node_class(workspace, classes, scopes, reads),
        absent=_absent(commitment, reads) if commitment is not None else frozenset(),
    )


def _claims(workspace: ObjectMeta, reads: CacheReader) -> Mapping[str, ObservedClaim]:
    """Return the claims of the pool, except an earlier Workspace's of this name (KAI-20)."""
    found = reads.by_index(POOL_CLAIMS, BY_POOL_WORKSPACE, workspace.key)
    own = (each for each in found if owner_uid(each.metadata) in {"", workspace.uid})
    return {claim.metadata.name: observed_claim(claim) for claim in own}


def _absent(commitment: PoolCommitment, reads: CacheReader) -> frozenset[str]:
    """Return committed nodes and claims that are certainly gone, and nodes that no longer fit."""
    nodes = (
        name
        for name in commitment.nodes
        if reads.looked_up_absent(NODES, name) or reads.get(NODES, name) is not None
    )
    claims = (
        name
        for name in commitment.claims
        if reads.get(NODE_CLAIMS, name) is None and reads.looked_up_absent(NODE_CLAIMS, name)
    )
    return frozenset((*nodes, *claims))


def _node_class(
    workspace: ObjectMeta, classes: NodeClassSettings, scopes: frozenset[str], reads: CacheReader
) -> ObservedNodeClass:
    name = classes.chosen_name(workspace.annotations or {})
    if not reads.serves(classes.resource):
        message = (
            f"the API server has no {classes.resource}: install Karpenter's provider, or set "
            "KARPENTER_NODE_CLASS_GROUP and its like to those of another one"
        )
        return ObservedNodeClass(name, Cause("NodeClassesNotServed", message))
    found = reads.get(classes.resource, name)
    if found is not None:
        return ObservedNodeClass(name, _problem(found, classes))
    is_created = classes.body(name) is not None
    remedy = "waiting until it is created" if is_created else "create it"
    wait = Cause("NodeClassMissing", f"there is no {classes.kind} {name}: {remedy}")
    is_missing = is_created and node_class_scope(name) not in scopes
    return ObservedNodeClass(name, wait, is_missing=is_missing)


def _problem(found: NodeClass, classes: NodeClassSettings) -> Cause | None:
    """Return why no pool can use a NodeClass; None if one can."""
    name, ready = f"{classes.kind} {found.metadata.name}", found.ready
    if found.metadata.terminating:
        return Cause(_NOT_READY, f"{name} is being deleted")
    if ready is None:
        message = f"{name}: waiting until Karpenter's provider reports that it is ready"
        return Cause(_NOT_READY, message)
    if ready.status == "True":
        return None
    return Cause(_NOT_READY, f"{name} is not ready: {ready.message or ready.reason}")


# Writes to the NodeClaims and nodes of a Workspace.
#
# Where claims are lost again and again, events do not name them, so that equal ones are one series.

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


# Writes to the NodePool of a Workspace, and to its NodeClass.


def pool_target(name: str) -> Target:
    """Return a NodePool as the target of a write."""
    return Target(NODE_POOLS, "", name, scope=SCOPE)


def look_up_lost(decision: PoolDecision) -> tuple[Lookup, ...]:
    """Return live reads of the nodes and claims that must certainly be gone."""
    nodes = (Lookup(Target(NODES, "", name)) for name in decision.confirm_nodes)
    return (*nodes, *look_up_claims(decision.confirm_claims))


def create_pool(seen: WorkspaceObservation, pool: PoolFacts, decision: PoolDecision) -> Create:
    """Return the create of the pool."""
    request, classes = seen.valid_goal.request, seen.settings.options.node_classes
    assert request is not None
    replicas = decision.commitment.replicas
    note = f"created NodePool {pool.name} for {replicas} of {request.instance_type}"
    return Create(
        pool_target(pool.name),
        node_pool_body(seen.workspace.metadata, request, replicas, classes),
        on_success=Event("Normal", "NodePoolCreated", "Create", note),
    )


def change_pool(
    seen: WorkspaceObservation, pool: PoolFacts, decision: PoolDecision
) -> Iterator[Write]:
    """Yield the other writes: the NodeClass that is missing, more nodes, the end of the pool."""
    if decision.create_class:
        yield from _create_class(pool.node_class.name, seen.settings.options.node_classes)
    if pool.found is None:
        return
    if decision.grow:
        yield _grow(pool.found, decision.commitment.replicas)
    if decision.delete:
        yield delete_pool(pool.found, "other nodes are asked for")


def delete_pool(pool: ObservedPool, why: str) -> Delete:
    """Return the delete of a pool, by its uid."""
    event = Event("Normal", "NodePoolDeleted", "Delete", f"deleted NodePool {pool.name}: {why}")
    return Delete(pool_target(pool.name), pool.uid, on_success=event)


def _grow(pool: ObservedPool, replicas: int) -> MergePatch:
    """Return the patch that gives a pool more nodes; it never removes any."""
    note = f"NodePool {pool.name} gets {replicas} nodes instead of {pool.replicas}"
    return MergePatch(
        pool_target(pool.name),
        pool.uid,
        {"spec": {"replicas": replicas}},
        resource_version=pool.resource_version,
        on_success=Event("Normal", "NodePoolScaled", "Update", note),
    )


def _create_class(name: str, classes: NodeClassSettings) -> Iterator[Create]:
    body = classes.body(name)
    if body is not None:
        target = Target(classes.resource, "", name, scope=node_class_scope(name))
        note = f"created {classes.kind} {name}"
        event = Event("Normal", "NodeClassCreated", "Create", note)
        yield Create(target, body, on_success=event)
