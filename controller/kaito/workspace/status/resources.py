"""The conditions about the progress of a Workspace's nodes, and what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.api.failed_write import failure_reason, what_failed
from controller.kaito.api.node import NODES
from controller.kaito.provisioning.conditions import (
    NODE_CLAIM_READY,
    NODES_READY,
    RESOURCE_READY,
    ConditionFacts,
    claim_condition,
    node_condition,
    pool_condition,
    resource_condition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.workspace.nodes.progress import NodeProgress
    from controller.runtime.plan import Failure

_NOT_SERVED: Final = (
    "the API server has no {}: install the definitions of the provisioner, or run the operator "
    "with nodes of your own"
)


def resource_conditions(
    progress: NodeProgress, failures: tuple[Failure, ...]
) -> tuple[ConditionFacts, ...]:
    """Return `NodeClaimReady` if nodes are claimed, `NodesReady`, and `ResourceReady` for both."""
    if not progress.target.count:
        unknown = progress.target
        parts = (_false(NODES_READY, unknown.reason, unknown.message),)
    else:
        claims = tuple(_claims(progress, failures))
        parts = (*claims, _nodes(progress, failures))
    return (*parts, resource_condition(*parts))


def invalid_condition(reason: str, message: str) -> ConditionFacts:
    """Return `ResourceReady` of a Workspace whose specification is refused."""
    return _false(RESOURCE_READY, reason, message)


def _claims(progress: NodeProgress, failures: tuple[Failure, ...]) -> Iterator[ConditionFacts]:
    failure = next((each for each in failures if _is_request(each)), None)
    if failure is not None:
        yield _false(NODE_CLAIM_READY, failure_reason(failure), what_failed(failure))
    elif progress.claims is not None:
        yield claim_condition(progress.claims)
    elif progress.pool is not None:
        yield pool_condition(progress.pool.wait)
    elif progress.lacks_resource:
        reason = f"{progress.requests}NotServed"
        yield _false(NODE_CLAIM_READY, reason, _NOT_SERVED.format(progress.requests))


def _is_request(failure: Failure) -> bool:
    """Return whether a write is about what nodes come with, and not about nodes themselves."""
    target = failure.write.target
    return not target.resource.namespaced and target.resource != NODES


def _nodes(progress: NodeProgress, failures: tuple[Failure, ...]) -> ConditionFacts:
    failure = next((each for each in failures if each.write.target.resource.kind == "Node"), None)
    if failure is not None and not progress.nodes.is_ready:
        return _false(NODES_READY, progress.nodes.reason, what_failed(failure))
    return node_condition(progress.nodes)


def _false(type_: str, reason: str, message: str) -> ConditionFacts:
    return ConditionFacts(type_, is_true=False, reason=reason, message=message)
