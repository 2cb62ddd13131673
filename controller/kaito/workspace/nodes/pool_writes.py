"""Writes to the NodePool of a Workspace, and to its NodeClass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kaito.api.karpenter.nodepool import NODE_POOLS
from controller.kaito.api.node import NODES
from controller.kaito.provisioning.node_pool import node_pool_body
from controller.kaito.workspace.nodes.claim_writes import look_up_claims
from controller.kaito.workspace.nodes.observe_pool import SCOPE, node_class_scope
from controller.runtime.plan import Create, Delete, Event, Lookup, MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.api.karpenter.node_class import NodeClassSettings
    from controller.kaito.provisioning.pool_decision import PoolDecision
    from controller.kaito.provisioning.pools import ObservedPool
    from controller.kaito.workspace.observation import SeenPool, WorkspaceObservation
    from controller.runtime.plan import Write


def pool_target(name: str) -> Target:
    """Return a NodePool as the target of a write."""
    return Target(NODE_POOLS, "", name, scope=SCOPE)


def look_up_lost(decision: PoolDecision) -> tuple[Lookup, ...]:
    """Return live reads of the nodes and claims that must certainly be gone."""
    nodes = (Lookup(Target(NODES, "", name)) for name in decision.confirm_nodes)
    return (*nodes, *look_up_claims(decision.confirm_claims))


def create_pool(seen: WorkspaceObservation, pool: SeenPool, decision: PoolDecision) -> Create:
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
    seen: WorkspaceObservation, pool: SeenPool, decision: PoolDecision
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
