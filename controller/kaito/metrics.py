"""Kaito's metrics of Workspaces and InferenceSets, computed from the cache when scraped.

On purpose different: Kaito counts a Workspace that still waits for its nodes as an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from controller.apimachinery.conditions import is_true
from controller.apimachinery.custom_object import conditions_of, dig, status_of
from controller.kaito.api.inferenceset import InferenceSet
from controller.kaito.api.workspace import Workspace
from controller.runtime.collectors import StateCollector

_FAILED: Final = frozenset({"Failed", "NotReady"})
"""States of a tuning that has failed, and of a server that no longer serves."""

_PHASES: Final = ("succeeded", "error", "pending", "deleting")


class WorkspaceCollector(StateCollector[Iterable[Workspace]]):
    """Collects `kaito_workspace_*`."""

    def metrics(self, current: Iterable[Workspace], /) -> Iterable[Metric]:
        """Return the numbers of Workspaces by phase and by preset."""
        workspaces = list(current)
        presets = GaugeMetricFamily(
            "kaito_workspace_preset_count", "Workspaces by their preset", labels=["preset_name"]
        )
        names = (
            dig(each.inference, "preset", "name") or dig(each.tuning, "preset", "name")
            for each in workspaces
        )
        for name, number in sorted(Counter(str(name) for name in names if name).items()):
            presets.add_metric([name], number)
        phases = Counter(_phase(each, "WorkspaceSucceeded") for each in workspaces)
        return _by_phase("kaito_workspace_count", "Workspaces by phase", phases), presets


class InferenceSetCollector(StateCollector[Iterable[InferenceSet]]):
    """Collects `kaito_inferenceset_count`."""

    def metrics(self, current: Iterable[InferenceSet], /) -> Iterable[Metric]:
        """Return the numbers of InferenceSets by phase."""
        phases = Counter(_phase(each, "InferenceSetReady") for each in current)
        return (_by_phase("kaito_inferenceset_count", "InferenceSets by phase", phases),)


def _phase(each: Workspace | InferenceSet, verdict: str) -> str:
    """Return the phase in Kaito's words."""
    if each.metadata.terminating:
        return "deleting"
    conditions = conditions_of(each)
    if is_true(conditions, verdict):
        return "succeeded"
    refused = any(str(each.get("reason")).startswith("Invalid") for each in conditions)
    return "error" if refused or status_of(each).get("state") in _FAILED else "pending"


def _by_phase(name: str, text: str, phases: Counter[str]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=["phase"])
    for phase in _PHASES:
        family.add_metric([phase], phases[phase])
    return family
