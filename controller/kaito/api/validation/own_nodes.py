"""Whether nodes that are there already can serve a preset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.quantity import Family, Quantity, parse_quantity
from controller.kaito.api.field_errors import FieldError, invalid_value
from controller.kaito.api.options import Runtime
from controller.kaito.presets import UnknownGPUs, gpus_of_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controller.kaito.presets import Model, NodeGPUs

_NANO = 10**9


def own_node_errors(nodes: Sequence[tuple[str, Mapping[str, str]]]) -> Iterator[FieldError]:
    """Errors of the nodes that a selector finds: names and labels. Kaito's first one only."""
    if not nodes:
        yield FieldError("No nodes found matching the specified label selector")
        return
    first: NodeGPUs | None = None
    for name, labels in nodes:
        try:
            gpus = gpus_of_node(name, labels)
        except UnknownGPUs as error:
            yield FieldError(f"Failed to get GPU config from nvidia labels on node {name}: {error}")
            return
        first = first or gpus
        difference = _difference(name, gpus, first)
        if difference:
            yield FieldError(difference)
            return


def _difference(name: str, gpus: NodeGPUs, first: NodeGPUs) -> str:
    """How a node differs from the others; empty if it does not."""
    if gpus.product != first.product:
        return (
            f"Non-uniform GPU product: node {name} has {gpus.product} GPUs, but previous node has "
            f"{first.product} GPUs, all nodes must have the same GPU product for homogeneous "
            "placement"
        )
    if gpus.count != first.count:
        return (
            f"Non-uniform GPU count: node {name} has {gpus.count} GPUs, but previous node has "
            f"{first.count} GPUs"
        )
    if gpus.memory != first.memory:
        return (
            f"Non-uniform GPU memory: node {name} has {_text(gpus.memory)} memory, but previous "
            f"node has {_text(first.memory)} memory"
        )
    return ""


def memory_errors(  # noqa: PLR0917  the facts, in the order of the message
    instance_type: str,
    gpus: NodeGPUs,
    nodes: int,
    preset: str,
    model: Model,
    runtime: Runtime,
    *,
    bypassed: bool = False,
) -> Iterator[FieldError]:
    """Return whether the weights fit into the memory of all nodes, and one node where they must."""
    weights = parse_quantity(model.weights)
    total = gpus.memory * nodes
    if total < weights.value and not bypassed:
        yield invalid_value(
            f"Insufficient total GPU memory: Instance type {instance_type} has a total of "
            f"{_text(total)}, but preset {preset} requires at least {weights}",
            "instanceType",
        )
    if weights.value > gpus.memory and runtime is Runtime.TRANSFORMERS:
        yield FieldError(
            "Multi-node distributed inference is not supported with Huggingface Transformers "
            "runtime"
        )


def _text(size: int) -> str:
    return str(Quantity(size * _NANO, Family.BINARY))
