"""The simulated nodes of `manta dev`: presets, or a file of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.devcluster.nodes.components import NodeShape
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class NodeGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the file: nodes that are alike, `name-0` and so on.

    Attributes:
        name: prefix of their names.
        count: how many there are.
        cpu: capacity of each.
        memory: capacity of each.
        resources: other capacities, such as `nvidia.com/gpu`.
        labels: labels besides the usual ones.
        taints: taints as in `spec.taints` of a Node.
    """

    name: str
    count: int = 1
    cpu: str | int | float = "32"
    memory: str | int = "128Gi"
    resources: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []

    def shapes(self) -> Iterator[NodeShape]:
        """Yield the nodes.

        Raises:
            ValueError: a capacity or the count is wrong.
        """
        if self.count < 1:
            raise ValueError(f"count of {self.name} is {self.count}: it must be 1 or more")
        capacities = {"cpu": self.cpu, "memory": self.memory, **self.resources}
        for name, amount in capacities.items():
            try:
                parse_quantity(amount)
            except InvalidQuantity as error:
                raise ValueError(f"{name} of {self.name}: {error}") from error
        resources = {name: str(amount) for name, amount in self.resources.items()}
        for number in range(self.count):
            yield NodeShape(
                f"{self.name}-{number}",
                str(self.cpu),
                str(self.memory),
                resources,
                self.labels,
                tuple(self.taints),
            )


PRESETS: Final = {
    "cpu": NodeGroup("cpu", 3, labels={"cloud.google.com/machine-family": "N4"}),
    "spot": NodeGroup("spot", labels={"cloud.google.com/gke-spot": "true"}),
    "8xH100": NodeGroup(
        "h100",
        1,
        "192",
        "2Ti",
        {"nvidia.com/gpu": 8},
        {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    ),
    "tpu-v6e-16": NodeGroup(
        "tpu",
        4,
        "180",
        "720Gi",
        {"google.com/tpu": 4},
        {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "4x4",
        },
    ),
}
"""Nodes as clouds rent them: for general use, that may go any time, with GPUs, a slice of TPUs."""


def node_shapes(options: Sequence[str]) -> tuple[NodeShape, ...]:
    """Return the nodes that `--nodes` names, each a preset or a file; all presets for none.

    Raises:
        ConfigurationError: one of them cannot be used; the message says why.
    """
    found: dict[str, NodeShape] = {}
    for option in options or PRESETS:
        groups = [PRESETS[option]] if option in PRESETS else _read(option)
        try:
            shapes = [shape for group in groups for shape in group.shapes()]
        except ValueError as error:
            raise ConfigurationError(f"--nodes {option}: {error}") from error
        for shape in shapes:
            if shape.name in found:
                raise ConfigurationError(
                    f"--nodes {option}: there is a node {shape.name} already; use another name"
                )
            found[shape.name] = shape
    return tuple(found.values())


def _read(option: str) -> list[NodeGroup]:
    try:
        document: Any = yaml.safe_load(Path(option).read_text())
    except OSError as error:
        raise ConfigurationError(
            f"--nodes {option}: neither a preset ({', '.join(PRESETS)}) nor a file that can be "
            f"read: {error.strerror}"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--nodes {option}: this is not YAML: {error}") from error
    try:
        groups = msgspec.convert(document, list[NodeGroup])
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"--nodes {option}: {error}; the file is a list of nodes, each with name, count, cpu, "
            "memory, resources, labels and taints"
        ) from error
    if not groups:
        raise ConfigurationError(f"--nodes {option}: it names no node")
    return groups
