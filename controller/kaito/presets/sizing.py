"""Consequences of the size of a model's weights: disk, and time to start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.quantity import parse_quantity
from controller.kaito.presets.model import GIB

if TYPE_CHECKING:
    from controller.kaito.presets.model import Model

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
