"""Instance types with accelerators, by cloud. Their names compare without case."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final

from controller.apimachinery.quantity import parse_quantity
from controller.kaito.presets.gpus import NodeGPUs
from controller.kaito.presets.tables import Row, read_table

_AZURE_SERIES: Final = ("standard_n", "standard_d")
"""Beginnings of names on Azure that pass unknown: nodes may carry GPUs that the table lacks."""


class Cloud(Enum):
    """The provider of the nodes, Kaito's `CLOUD_PROVIDER`."""

    AZURE = "azure"
    AWS = "aws"
    ARC = "arc"


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A machine.

    Attributes:
        name: as the cloud writes it, which is how nodes are labelled.
        gpus: its accelerators.
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
    capability: float = 0
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
    return {
        machine.name.lower(): InstanceType(machine.name, _gpus(family, machine))
        for family in _families()[cloud.value]
        for machine in family.types
    }


@cache
def _families() -> dict[str, tuple[_Family, ...]]:
    return read_table("instance_types.yaml", dict[str, tuple[_Family, ...]])


def _gpus(family: _Family, machine: _Machine) -> NodeGPUs:
    memory = parse_quantity(machine.memory).value
    return NodeGPUs(machine.gpus, memory, family.accelerator, nvme=family.nvme)
