"""Decides how many nodes a Workspace needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.kaito.api.options import Provisioner, Runtime
from controller.kaito.api.validation.field_errors import message_of
from controller.kaito.presets import (
    DEFAULT_CONTEXT,
    DoesNotFit,
    UnknownGPUs,
    check_alike,
    estimate_nodes,
)
from controller.kaito.provisioning.commitment import MOST_NODES
from controller.kaito.workloads import workload_gpus
from controller.kaito.workspace.config import config_problem, context_of
from controller.kaito.workspace.model_metadata import missing_model
from controller.kaito.workspace.nodes.memory import memory_errors

if TYPE_CHECKING:
    from controller.kaito.presets import Model, NodeGPUs
    from controller.kaito.provisioning.commitment import Commitment
    from controller.kaito.provisioning.pool_commitment import PoolCommitment
    from controller.kaito.workspace.observation import WorkspaceObservation

_UNKNOWN_GPUS: Final = "NodeNotReady"
_DOES_NOT_FIT: Final = "ModelDoesNotFit"
_TOO_MANY: Final = "TooManyNodes"


@dataclass(frozen=True, slots=True)
class NodeTarget:
    """The number of nodes, or why there is none.

    Attributes:
        count: 0 if it is not known.
        reason: why it is not, in one word.
        message: the same in words.
    """

    count: int = 0
    reason: str = ""
    message: str = ""


def node_target(seen: WorkspaceObservation) -> NodeTarget:
    """Return the number of nodes, or a problem if it exceeds the maximum."""
    found = _decided(seen)
    if found.count <= MOST_NODES:
        return found
    message = (
        f"{found.count} nodes are requested, and a workspace gets at most {MOST_NODES}: use "
        "larger instances, or a smaller model"
    )
    return NodeTarget(reason=_TOO_MANY, message=message)


def _decided(seen: WorkspaceObservation) -> NodeTarget:
    """Return the committed number, or the one that Kaito has stored, else what the model needs.

    It is estimated once (KAI-8), so that a serving model does not lose its nodes when the estimate
    changes; hence the estimate waits for the options on which it depends.
    """
    commitment, request = _stored(seen), seen.valid_goal.request
    if commitment is not None and request is not None and commitment.template == request.template:
        return NodeTarget(commitment.target)
    stored = seen.status.get("targetNodeCount")
    if commitment is None and isinstance(stored, int) and stored > 0:
        return NodeTarget(stored)
    problem = config_problem(
        seen.valid_goal, seen.workload.config, seen.workspace.metadata.namespace
    )
    if problem is not None:
        return NodeTarget(reason=problem.reason, message=problem.message)
    return _estimated(seen)


def _stored(seen: WorkspaceObservation) -> Commitment | PoolCommitment | None:
    if seen.settings.options.provisioner is not Provisioner.NODE_POOLS:
        return seen.commitment
    return seen.pool.commitment if seen.pool is not None else None


def _estimated(seen: WorkspaceObservation) -> NodeTarget:
    goal = seen.valid_goal
    if goal.spec.tuning is not None:
        return NodeTarget(1)
    if goal.preset is None:
        return NodeTarget(goal.spec.resource.count or 1)
    if goal.model is None:
        missing = missing_model(goal, seen.found_model, seen.settings.options)
        return NodeTarget(reason=missing.reason, message=missing.message)
    try:
        return NodeTarget(_nodes_for(goal.model, seen))
    except UnknownGPUs as error:
        return NodeTarget(reason=_UNKNOWN_GPUS, message=str(error))
    except DoesNotFit as error:
        return NodeTarget(reason=_DOES_NOT_FIT, message=str(error))


def _nodes_for(model: Model, seen: WorkspaceObservation) -> int:
    """Return the number of nodes: vLLM spreads a model over several; otherwise it is the user's.

    Raises:
        UnknownGPUs: the GPUs of the nodes are unknown, or are not alike.
        DoesNotFit: the model does not fit into their memory.
    """
    goal, gpus = seen.valid_goal, _gpus(seen)
    if goal.runtime is Runtime.VLLM:
        return estimate_nodes(model, gpus, context_of(seen.workload.config) or DEFAULT_CONTEXT)
    nodes = goal.spec.resource.count or 1
    errors = tuple(memory_errors(seen, model, gpus, nodes))
    if errors:
        raise DoesNotFit(message_of(errors))
    return nodes


def _gpus(seen: WorkspaceObservation) -> NodeGPUs:
    """Return the GPUs of each node; nodes of one's own must be alike.

    Raises:
        UnknownGPUs: they are unknown, or are not alike.
    """
    resource, options = seen.valid_goal.spec.resource, seen.settings.options
    ready = [(node.name, node.labels) for node in seen.nodes if node.is_ready]
    if options.has_own_nodes and resource.partition is None:
        check_alike(ready)
    return workload_gpus(resource, options, ready[0] if ready else None)
