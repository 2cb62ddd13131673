"""Checks the memory of nodes that serve with Transformers, which runs a model on one node only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.quantity import Family, Quantity, parse_quantity
from controller.kaito.api import labels
from controller.kaito.api.validation.field_errors import FieldError, invalid_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.presets import Model, NodeGPUs
    from controller.kaito.workspace.observation import WorkspaceObservation

_NANO = 10**9


def memory_errors(
    seen: WorkspaceObservation, model: Model, gpus: NodeGPUs, nodes: int
) -> Iterator[FieldError]:
    """Yield errors of weights that do not fit into all nodes together, or into one of them.

    Args:
        seen: a valid Workspace. With the annotation `kaito.sh/bypass-resource-checks`, whatever its
            value, the memory of all nodes together is not judged.
        model: the model to serve.
        gpus: GPUs of each node.
        nodes: number of them.
    """
    goal, weights = seen.valid_goal, parse_quantity(model.weights)
    annotations = seen.workspace.metadata.annotations or {}
    preset = goal.preset.name if goal.preset else model.name
    total = gpus.memory * nodes
    if total < weights.value and labels.BYPASS_RESOURCE_CHECKS not in annotations:
        yield invalid_value(
            f"Insufficient total GPU memory: Instance type {goal.spec.resource.instance_type} has "
            f"a total of {Quantity(total * _NANO, Family.BINARY)}, but preset {preset} requires at "
            f"least {model.weights}",
            "instanceType",
        )
    if weights.value > gpus.memory:
        yield FieldError(
            "Multi-node distributed inference is not supported with Huggingface Transformers "
            f"runtime, and preset {preset} requires at least {model.weights} of GPU memory on one "
            f"node, which has {Quantity(gpus.memory * _NANO, Family.BINARY)}",
            ("instanceType",),
        )
