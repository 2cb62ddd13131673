"""The accelerators of a workload on each of its nodes, and how many nodes vLLM needs.

They are those of an instance type (`instance_types`), of a node that exists, of a slice of a GPU,
or some of a node's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.quantity import parse_quantity
from controller.kaito.presets.models import GIB, Model, Row, read_table

_PRODUCT: Final = "nvidia.com/gpu.product"
_COUNT: Final = "nvidia.com/gpu.count"
_MEMORY: Final = "nvidia.com/gpu.memory"
_MIG_CONFIG: Final = "nvidia.com/mig.config"
_MIG_STATE: Final = "nvidia.com/mig.config.state"
_PROFILE: Final = re.compile(r"(\d{1,9})g\.([\d.]+)gb")
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}")
_DECIMAL: Final = re.compile(r"\d{1,9}(\.\d*)?|\.\d{1,9}")


class UnknownGPUs(ValueError):  # noqa: N818 - reads as what it says
    """The accelerators are unknown; the message is Kaito's."""


class NodeGPUs(Struct, frozen=True):
    """The accelerators of one node, all alike.

    Attributes:
        memory: memory of all of them together, in bytes.
        nvme: whether the machine has local disks.
        is_mig: whether they are slices of GPUs.
    """

    count: int
    memory: int
    product: str = ""
    nvme: bool = False
    is_mig: bool = False

    @property
    def memory_of_one(self) -> int:
        """Bytes of one accelerator."""
        return self.memory // self.count

    def some(self, count: int) -> NodeGPUs:
        """Return `count` of them.

        Raises:
            UnknownGPUs: there are fewer.
        """
        if count > self.count:
            raise UnknownGPUs(
                f"partition.count ({count}) exceeds GPUs available on node ({self.count})"
            )
        return replace(self, count=count, memory=self.memory_of_one * count)


def gpus_of_node(name: str, labels: Mapping[str, str]) -> NodeGPUs:
    """Return the GPUs of a node, from the labels that NVIDIA's feature discovery sets.

    Raises:
        UnknownGPUs: a label is missing or no number.
    """
    missing = [label for label in (_PRODUCT, _COUNT, _MEMORY) if label not in labels]
    if missing:
        raise UnknownGPUs(
            f"missing required nvidia.com labels on node {name}: {', '.join(missing)}; run "
            "NVIDIA's GPU feature discovery on it, which sets them"
        )
    count = _number(name, labels, _COUNT)
    mebibytes = _number(name, labels, _MEMORY)
    if count < 1:
        raise UnknownGPUs(f"invalid {_COUNT} value on node {name}: {labels[_COUNT]}")
    return NodeGPUs(
        count=count,
        memory=int(mebibytes / 1024 + 0.5) * count * GIB,
        product=labels[_PRODUCT],
        is_mig=_is_sliced(labels),
    )


def check_alike(nodes: Iterable[tuple[str, Mapping[str, str]]]) -> None:
    """Check that nodes, given by name and labels, have the same GPUs, as many, and as large.

    Raises:
        UnknownGPUs: one differs from the first, or a label of one is missing or no number.
    """
    found = [(name, gpus_of_node(name, labels)) for name, labels in nodes]
    for name, gpus in found:
        if difference := _difference(name, gpus, *found[0]):
            raise UnknownGPUs(difference)


def gpus_of_slice(profile: str) -> NodeGPUs:
    """Return the one slice of a GPU that a profile of Multi-Instance GPU names.

    Raises:
        UnknownGPUs: it is no profile of any GPU.
    """
    match = _PROFILE.fullmatch(profile)
    if match is None:
        raise UnknownGPUs(
            f"invalid MIG profile format \"{profile}\": expected format like '1g.10gb'"
        )
    slices, memory = match.groups()
    if not _DECIMAL.fullmatch(memory):
        raise UnknownGPUs(f'invalid MIG profile "{profile}": cannot parse memory value')
    if not int(slices):
        raise UnknownGPUs(f'invalid MIG profile "{profile}": compute slices must be > 0')
    if not int(float(memory)):
        raise UnknownGPUs(f'invalid MIG profile "{profile}": memory must be > 0')
    if profile not in slice_profiles():
        known = " ".join(slice_profiles())
        raise UnknownGPUs(f'unknown MIG profile "{profile}": must be one of [{known}]')
    return NodeGPUs(count=1, memory=int(float(memory)) * GIB, is_mig=True)


@cache
def slice_profiles() -> tuple[str, ...]:
    """Return the profiles of all GPUs, sorted."""
    by_gpu = read_table("mig_profiles.yaml", dict[str, tuple[str, ...]])
    return tuple(sorted({profile for profiles in by_gpu.values() for profile in profiles}))


def _difference(name: str, gpus: NodeGPUs, first_name: str, first: NodeGPUs) -> str:
    """Return how the GPUs of a node differ from those of the first; empty if they do not."""
    if gpus.product != first.product:
        kind, has, had = "product", f"{gpus.product} GPUs", f"{first.product} GPUs"
    elif gpus.count != first.count:
        kind, has, had = "count", f"{gpus.count} GPUs", f"{first.count} GPUs"
    elif gpus.memory != first.memory:
        kind, has, had = "memory", *(f"{each.memory // GIB}Gi memory" for each in (gpus, first))
    else:
        return ""
    return (
        f"Non-uniform GPU {kind}: node {name} has {has}, but previous node {first_name} has {had}; "
        "select nodes with the same GPUs by resource.labelSelector"
    )


def _number(node: str, labels: Mapping[str, str], label: str) -> int:
    text = labels[label]
    if not _NUMBER.fullmatch(text):
        raise UnknownGPUs(f"invalid {label} value on node {node}: {text}")
    return int(text)


def _is_sliced(labels: Mapping[str, str]) -> bool:
    """Return whether a layout of slices was asked for and has been applied."""
    asked = labels.get(_MIG_CONFIG, "")
    return asked not in {"", "all-disabled"} and labels.get(_MIG_STATE) == "success"


_AZURE_SERIES: Final = ("standard_n", "standard_d")
"""Beginnings of names on Azure that pass unknown: nodes may carry GPUs that the table lacks."""


class Cloud(Enum):
    """The provider of the nodes, Kaito's `CLOUD_PROVIDER`."""

    AZURE = "azure"
    AWS = "aws"
    ARC = "arc"


class InstanceType(Struct, frozen=True):
    """A machine.

    Attributes:
        name: as the cloud writes it, which is how nodes are labelled.
    """

    name: str
    gpus: NodeGPUs


class _Machine(Row, frozen=True):
    """An element of `types`."""

    name: str
    gpus: int
    memory: str


class _Family(Row, frozen=True):
    """Machines with the same accelerator."""

    source: str
    accelerator: str
    types: tuple[_Machine, ...]
    nvme: bool = False


def find_instance_type(cloud: Cloud, name: str) -> InstanceType | None:
    """Return the instance type of that name in any case; None if the table lacks it."""
    return _types(cloud).get(name.lower())


def instance_type_names(cloud: Cloud) -> tuple[str, ...]:
    """Return the names of all known instance types, sorted."""
    return tuple(sorted(each.name for each in _types(cloud).values()))


def may_be_provisioned(cloud: Cloud, name: str) -> bool:
    """Return whether nodes of this type may be requested: known, or of Azure's N or D series."""
    if find_instance_type(cloud, name) is not None:
        return True
    return cloud is Cloud.AZURE and name.lower().startswith(_AZURE_SERIES)


@cache
def _types(cloud: Cloud) -> dict[str, InstanceType]:
    families = read_table("instance_types.yaml", dict[str, tuple[_Family, ...]])
    return {
        machine.name.lower(): InstanceType(machine.name, _gpus(family, machine))
        for family in families[cloud.value]
        for machine in family.types
    }


def _gpus(family: _Family, machine: _Machine) -> NodeGPUs:
    memory = parse_quantity(machine.memory).value
    return NodeGPUs(machine.gpus, memory, family.accelerator, nvme=family.nvme)


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
