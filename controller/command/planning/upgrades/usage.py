"""The sum of the resources that pods ask for."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.quantity import ZERO
from controller.ray.pods.start_command import is_gpu, quantities

Json = dict[str, Any]


class Usage(msgspec.Struct, frozen=True):
    """The resources that a number of pods ask for.

    Attributes:
        pods: their number.
        cpus: CPUs of all their containers.
        gpus: GPUs of all their containers.
    """

    pods: int = 0
    cpus: float = 0
    gpus: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        return Usage(self.pods + other.pods, self.cpus + other.cpus, self.gpus + other.gpus)

    def __sub__(self, other: Usage) -> Usage:
        """Return the difference."""
        return Usage(self.pods - other.pods, self.cpus - other.cpus, self.gpus - other.gpus)

    def at_least(self, other: Usage) -> Usage:
        """Return the larger of each number."""
        return Usage(
            max(self.pods, other.pods), max(self.cpus, other.cpus), max(self.gpus, other.gpus)
        )

    def __str__(self) -> str:
        """Return a text for users: `3 Pods, 4.5 CPUs, 1 GPU`."""
        parts = [_counted(self.pods, "Pod"), _counted(self.cpus, "CPU")]
        return ", ".join([*parts, _counted(self.gpus, "GPU")] if self.gpus else parts)


def usage_of(pod: Json) -> Usage:
    """Return the resources that a pod asks for: requests, or limits where it has none."""
    cpus, gpus = ZERO, ZERO
    for container in pod["spec"]["containers"]:
        resources = mapping(container.get("resources"))
        limits, requests = (mapping(resources.get(each)) for each in ("limits", "requests"))
        for name, amount in (quantities(limits) | quantities(requests)).items():
            if name == "cpu":
                cpus += amount
            elif is_gpu(name):
                gpus += amount
    return Usage(1, cpus.nanos / 10**9, gpus.value)


def _counted(number: float, unit: str) -> str:
    return f"{number:g} {unit}" if number == 1 else f"{number:g} {unit}s"
