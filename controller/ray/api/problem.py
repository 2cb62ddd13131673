"""What is wrong with an object, in words its user can act on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """The first thing found wrong with an object.

    Attributes:
        field: path of the field, `spec.workerGroupSpecs[0].minReplicas`.
        message: what is wrong and what to do about it, one sentence without the path.
        reason: KubeRay's event reason.
    """

    field: str
    message: str
    reason: str = "InvalidRayClusterSpec"

    def __str__(self) -> str:
        """`spec.rayVersion: must be set ...`."""
        return f"{self.field}: {self.message}"
