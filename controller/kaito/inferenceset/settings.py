"""Settings of the InferenceSet controller."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.kaito.api.options import KaitoOptions


@dataclass(frozen=True, slots=True)
class InferenceSetSettings:
    """Settings of the InferenceSet controller.

    Attributes:
        options: settings about the cluster.
        batch: maximum Workspaces of a set that one plan creates, deletes or changes.
    """

    options: KaitoOptions = field(default_factory=KaitoOptions)
    batch: int = 64
