"""Kaito's metrics, as Prometheus reads them."""

from __future__ import annotations

from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from controller.kaito.api.inferenceset import InferenceSet
from controller.kaito.api.status import InferenceSetCollector, WorkspaceCollector
from controller.kaito.api.workspace import Workspace


def workspace(status: Any = None, preset: str = "", **metadata: Any) -> Workspace:
    inference = {"preset": {"name": preset}} if preset else None
    body = {"metadata": {"name": "w", **metadata}, "inference": inference, "status": status}
    return msgspec.convert(body, Workspace)


def saying(verdict: str, status: str, reason: str = "") -> dict[str, Any]:
    return {"conditions": [{"type": verdict, "status": status, "reason": reason}]}


def samples(collector: Any) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(collector)
    return {
        f"{sample.name} {' '.join(sample.labels.values())}": sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_workspaces_are_counted_by_phase_and_preset():
    found = samples(
        WorkspaceCollector(
            lambda: [
                workspace(saying("WorkspaceSucceeded", "True"), "phi-4"),
                workspace({"state": "Ready", **saying("WorkspaceSucceeded", "True")}, "phi-4"),
                workspace({"state": "NotReady"}, "falcon-7b"),
                workspace({"state": "Failed"}),
                workspace(saying("ResourceReady", "False", "InvalidWorkspaceSpec")),
                workspace(saying("WorkspaceSucceeded", "False", "WaitsForNodes")),
                workspace(),
                workspace(deletionTimestamp="2026-01-01T00:00:00Z"),
                workspace({"conditions": "nonsense", "state": 5}),
            ]
        )
    )
    assert found == {
        "kaito_workspace_count succeeded": 2,
        "kaito_workspace_count error": 3,
        "kaito_workspace_count pending": 3,
        "kaito_workspace_count deleting": 1,
        "kaito_workspace_preset_count phi-4": 2,
        "kaito_workspace_preset_count falcon-7b": 1,
    }


def test_inference_sets_are_counted_by_phase():
    sets = [
        {"status": saying("InferenceSetReady", "True", "inferencesetReady")},
        {"status": saying("InferenceSetReady", "False", "inferencesetNotReady")},
        {"status": saying("InferenceSetReady", "False", "InvalidInferenceSetSpec")},
        {},
    ]
    read = [msgspec.convert({"metadata": {"name": "s"}, **each}, InferenceSet) for each in sets]
    assert samples(InferenceSetCollector(lambda: read)) == {
        "kaito_inferenceset_count succeeded": 1,
        "kaito_inferenceset_count error": 1,
        "kaito_inferenceset_count pending": 2,
        "kaito_inferenceset_count deleting": 0,
    }
