"""The Workspaces of an InferenceSet, each as its status shows it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import is_true
from controller.apimachinery.custom_object import conditions_of, dig, status_of

if TYPE_CHECKING:
    from controller.kaito.api.workspace import Workspace

PEAK_METRIC: Final = "peakTokensPerMinute"
_SUCCEEDED: Final = "WorkspaceSucceeded"


@dataclass(frozen=True, slots=True)
class Replica:
    """One Workspace of a set.

    Attributes:
        name: name of the Workspace.
        uid: uid of the Workspace.
        ready: whether it serves.
        terminating: whether it is being deleted; its nodes are not free yet.
        on_old_image: whether its server exists and runs another image than a new one would.
        peak: measured tokens per minute; 0 without a measurement.
    """

    name: str
    uid: str = ""
    ready: bool = False
    terminating: bool = False
    on_old_image: bool = False
    peak: float = 0.0


def replica(workspace: Workspace) -> Replica:
    """Return the replica that a Workspace shows itself to be."""
    meta = workspace.metadata
    return Replica(
        meta.name,
        meta.uid,
        ready=not meta.terminating and is_true(conditions_of(workspace), _SUCCEEDED),
        terminating=meta.terminating,
        peak=_peak(workspace),
    )


def _peak(workspace: Workspace) -> float:
    text = dig(status_of(workspace), "performance", "metrics", PEAK_METRIC, "value")
    try:
        value = float(text) if isinstance(text, str) else 0.0
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value > 0 else 0.0
