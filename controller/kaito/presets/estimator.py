"""The number of nodes that vLLM needs for a model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from controller.apimachinery.quantity import parse_quantity
from controller.kaito.presets.models import GIB

if TYPE_CHECKING:
    from controller.kaito.presets.gpus import NodeGPUs
    from controller.kaito.presets.models import Model


# Source of the numbers: kaito-project/kaito at 056b8280, pkg/workspace/estimator/nodesestimator.
MEMORY_UTILIZATION: Final = 0.84
"""Share of a GPU's memory that vLLM may take: what it is started with."""

_LOADED_PER_STORED: Final = 1.02
"""Size of loaded weights compared with their files."""

_BASE_OVERHEAD_GIB: Final = 2.3
"""Memory that vLLM takes of each GPU for any model: CUDA, NCCL, the graphs of a small model."""

_OVERHEAD_PER_WEIGHT: Final = 0.05
"""Additional memory that vLLM takes for each byte of weights on that GPU."""

DEFAULT_CONTEXT: Final = 2048
"""Tokens of context for which there must be room unless another number is requested."""


class DoesNotFit(ValueError):  # noqa: N818 - reads as what it says
    """No number of these nodes serves the model; the message is Kaito's."""


def estimate_nodes(model: Model, gpus: NodeGPUs, context: int = DEFAULT_CONTEXT) -> int:
    """Return the number of nodes with these GPUs on which the model fits.

    Args:
        model: the model to serve.
        gpus: GPUs of each node.
        context: tokens of the longest context.

    Raises:
        DoesNotFit: vLLM's overhead leaves no room for weights, or the model needs more than the
            one slice of a GPU that there is.
    """
    available = gpus.memory_of_one * MEMORY_UTILIZATION
    cache = context * model.cache_bytes_per_token / gpus.count
    reserved = _BASE_OVERHEAD_GIB * GIB + cache
    if available <= reserved:
        raise DoesNotFit(
            f"GPU memory {gpus.memory_of_one} bytes is too small, needs at least "
            f"{reserved / GIB:.1f} GB overhead (base: {_BASE_OVERHEAD_GIB}GB + KV Cache: "
            f"{cache / GIB:.1f} GB)"
        )
    room = (available - reserved) / (1 + _OVERHEAD_PER_WEIGHT)
    loaded = model.weight_bytes * _LOADED_PER_STORED
    nodes = math.ceil((int(loaded / room) + 1) / gpus.count)
    if gpus.is_mig and nodes > 1:
        raise DoesNotFit(_slice_too_small(loaded, reserved, gpus))
    return nodes


def _slice_too_small(loaded: float, reserved: float, gpus: NodeGPUs) -> str:
    overhead = reserved + _OVERHEAD_PER_WEIGHT * loaded
    memory = gpus.memory_of_one
    return (
        f"model needs {(loaded + overhead) / GIB:.1f}GB (weights {loaded / GIB:.1f}GB + overhead "
        f"{overhead / GIB:.1f}GB) but the MIG slice only provides {memory / GIB:.0f}GB "
        f"({memory * MEMORY_UTILIZATION / GIB:.1f}GB available after vLLM gpu-memory-utilization)"
    )


# Consequences of the size of a model's weights: disk, and time to start.

# Source of the numbers: kaito-project/kaito at 056b8280, presets/workspace/generator/generator.go
# (disk) and presets/workspace/models/vllm_model.go (start).
_SYSTEM_DISK_GIB: Final = 80
DISK_OF_UNKNOWN_SIZE: Final = "1024Gi"
"""Storage request of a node whose workload's size is not known."""

_START_BASE: Final = 15 * 60.0
_START_PER_GIB: Final = 18.0
"""Seconds for a GiB of weights: a download of 60 MB/s."""

_SHORTEST_START: Final = 30 * 60.0
_LONGEST_START: Final = 180 * 60.0


def disk_request(model: Model) -> str:
    """Return the storage request of a node for the model, a quantity in whole GiB."""
    return f"{int(float(parse_quantity(model.weights)) / GIB + _SYSTEM_DISK_GIB)}Gi"


def startup_seconds(model: Model) -> float:
    """Return the seconds that a pod may take until it serves."""
    wanted = _START_BASE + model.weight_bytes / GIB * _START_PER_GIB
    return min(max(wanted, _SHORTEST_START), _LONGEST_START)
