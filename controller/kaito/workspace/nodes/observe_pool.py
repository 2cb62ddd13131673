"""Gathers what there is of a Workspace's NodePool from the caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.ownership import owner_uid
from controller.kaito.api.karpenter.nodeclaim import NODE_CLAIMS
from controller.kaito.api.karpenter.nodepool import NODE_POOLS
from controller.kaito.api.node import NODES
from controller.kaito.provisioning.claims import observed_claim
from controller.kaito.provisioning.names import node_pool_name
from controller.kaito.provisioning.pool_decision import ObservedNodeClass, PoolWait
from controller.kaito.provisioning.pools import observed_pool
from controller.kaito.provisioning.selection import BY_POOL_WORKSPACE
from controller.kaito.workspace.observation import SeenPool
from controller.kaito.workspace.watches import POOL_CLAIMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.api.karpenter.node_class import NodeClass, NodeClassSettings
    from controller.kaito.provisioning.claims import ObservedClaim
    from controller.kaito.provisioning.pool_commitment import PoolCommitment
    from controller.kube.objects import ObjectMeta
    from controller.runtime.kind import CacheReader

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
) -> SeenPool:
    """Read the pool that has the Workspace's name, its claims and its NodeClass."""
    name = node_pool_name(workspace.namespace, workspace.name)
    found = reads.get(NODE_POOLS, name)
    scopes = reads.pending_scopes(workspace.uid)
    return SeenPool(
        name=name,
        commitment=commitment,
        found=observed_pool(found, workspace) if found is not None else None,
        is_unreadable=name in reads.unreadable(NODE_POOLS, ""),
        is_pending=SCOPE in scopes,
        is_taken=found is None and reads.has_name_conflict(NODE_POOLS, name),
        is_absent=found is None and reads.looked_up_absent(NODE_POOLS, name),
        claims=_claims(workspace, reads),
        node_class=_node_class(workspace, classes, scopes, reads),
        absent=_absent(commitment, reads) if commitment is not None else frozenset(),
        unsure=frozenset((*reads.unreadable(NODES, ""), *reads.unreadable(NODE_CLAIMS, ""))),
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
    claims = (name for name in commitment.claims if reads.looked_up_absent(NODE_CLAIMS, name))
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
        return ObservedNodeClass(name, PoolWait("NodeClassesNotServed", message))
    found = reads.get(classes.resource, name)
    if found is not None:
        return ObservedNodeClass(name, _problem(found, classes))
    if name in reads.unreadable(classes.resource, ""):
        message = f"{classes.kind} {name} cannot be decoded"
        return ObservedNodeClass(name, PoolWait(_NOT_READY, message))
    is_created = classes.body(name) is not None
    remedy = "waiting until it is created" if is_created else "create it"
    wait = PoolWait("NodeClassMissing", f"there is no {classes.kind} {name}: {remedy}")
    is_missing = is_created and node_class_scope(name) not in scopes
    return ObservedNodeClass(name, wait, is_missing=is_missing)


def _problem(found: NodeClass, classes: NodeClassSettings) -> PoolWait | None:
    """Return why no pool can use a NodeClass; None if one can."""
    name, ready = f"{classes.kind} {found.metadata.name}", found.ready
    if found.metadata.terminating:
        return PoolWait(_NOT_READY, f"{name} is being deleted")
    if ready is None:
        message = f"{name}: waiting until Karpenter's provider reports that it is ready"
        return PoolWait(_NOT_READY, message)
    if ready.status == "True":
        return None
    return PoolWait(_NOT_READY, f"{name} is not ready: {ready.message or ready.reason}")
