"""The Workspaces of an InferenceSet, each as its status shows it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import READY, find_condition, is_true
from controller.apimachinery.custom_object import conditions_of, dig, status_of
from controller.kaito.provisioning.conditions import RESOURCE_READY

if TYPE_CHECKING:
    from controller.kaito.api.workspace import Workspace

PEAK_METRIC: Final = "peakTokensPerMinute"
_TELLING: Final = (READY, RESOURCE_READY, "InferenceReady")
"""Conditions that name a cause: of the operator, of the nodes, of the server."""

_SUCCEEDED: Final = "WorkspaceSucceeded"


@dataclass(frozen=True, slots=True)
class Replica:
    """One Workspace of a set.

    Attributes:
        name: name of the Workspace.
        uid: uid of the Workspace.
        ready: whether it serves.
        cause: why it gets no further, in its own words; empty if it does, or does not say.
        terminating: whether it is being deleted; its nodes are not free yet.
        on_old_image: whether its server exists and runs another image than a new one would.
        peak: measured tokens per minute; 0 without a measurement.
    """

    name: str
    uid: str = ""
    ready: bool = False
    cause: str = ""
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
        cause=_cause(workspace),
        terminating=meta.terminating,
        peak=_peak(workspace),
    )


def _cause(workspace: Workspace) -> str:
    found = conditions_of(workspace)
    for told in (find_condition(found, each) for each in _TELLING):
        if told is not None and told.get("status") == "False":
            return str(told.get("message") or "")
    return ""


def _peak(workspace: Workspace) -> float:
    text = dig(status_of(workspace), "performance", "metrics", PEAK_METRIC, "value")
    try:
        value = float(text) if isinstance(text, str) else 0.0
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value > 0 else 0.0
