"""How many nodes a Workspace needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.kaito.api.options import Runtime
from controller.kaito.presets import DEFAULT_CONTEXT, DoesNotFit, UnknownGPUs, estimate_nodes
from controller.kaito.workloads import workload_gpus
from controller.kaito.workspace.config import context_of

if TYPE_CHECKING:
    from controller.kaito.workspace.observation import WorkspaceObservation

_UNKNOWN_MODEL: Final = "ModelMetadataPending"
_UNKNOWN_GPUS: Final = "NodeNotReady"
_DOES_NOT_FIT: Final = "ModelDoesNotFit"


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
    """The number that was committed, or that Kaito has stored; else what the model needs.

    It is estimated once (KAI-8): a model that serves does not lose its nodes because the estimate
    has changed.
    """
    commitment, request = seen.commitment, seen.valid_goal.request
    if commitment is not None and request is not None and commitment.template == request.template:
        return NodeTarget(commitment.target)
    stored = seen.status.get("targetNodeCount")
    if commitment is None and isinstance(stored, int) and stored > 0:
        return NodeTarget(stored)
    return _estimated(seen)


def _estimated(seen: WorkspaceObservation) -> NodeTarget:
    goal = seen.valid_goal
    spec = goal.spec
    if spec.tuning is not None:
        return NodeTarget(1)
    if goal.preset is None or goal.runtime is not Runtime.VLLM:
        return NodeTarget(spec.resource.count or 1)
    if goal.model is None:
        message = f"the size of the model {goal.preset.name} is not known"
        return NodeTarget(reason=_UNKNOWN_MODEL, message=message)
    ready = ((node.name, node.labels) for node in seen.nodes if node.is_ready)
    context = context_of(seen.workload.config)
    try:
        gpus = workload_gpus(spec.resource, seen.settings.options, next(ready, None))
        return NodeTarget(estimate_nodes(goal.model, gpus, context or DEFAULT_CONTEXT))
    except UnknownGPUs as error:
        return NodeTarget(reason=_UNKNOWN_GPUS, message=str(error))
    except DoesNotFit as error:
        return NodeTarget(reason=_DOES_NOT_FIT, message=str(error))
