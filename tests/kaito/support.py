"""Objects for the tests of the `kaito.sh` kinds."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.kaito.api.inferenceset import InferenceSet
from controller.kaito.api.workspace import Workspace


def inference(preset: str = "phi-4-mini-instruct", **more: Any) -> dict[str, Any]:
    """`inference` with a preset."""
    return {"preset": {"name": preset}, **more}


def tuning(**changes: Any) -> dict[str, Any]:
    """`tuning` from an address to an image."""
    return {
        "preset": {"name": "phi-3-mini-128k-instruct"},
        "method": "qlora",
        "input": {"urls": ["https://example.com/data.parquet"]},
        "output": {"image": "example.com/result:1", "imagePushSecret": "push"},
        **changes,
    }


def raw_workspace(**changes: Any) -> dict[str, Any]:
    """A Workspace as plain data; `name`, `labels` and `annotations` are its metadata's."""
    metadata = {"name": "phi", "namespace": "default", "uid": "u-1", "generation": 1}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    for name in ("name", "labels", "annotations", "uid"):
        if name in changes:
            metadata[name] = changes.pop(name)
    resource = {
        "count": 1,
        "instanceType": "Standard_NC24ads_A100_v4",
        "labelSelector": {"matchLabels": {"apps": "phi"}},
    }
    resource |= changes.pop("resource", {})
    purpose = {} if {"inference", "tuning"} & changes.keys() else {"inference": inference()}
    return {
        "apiVersion": "kaito.sh/v1beta1",
        "kind": "Workspace",
        "metadata": metadata,
        "resource": {name: value for name, value in resource.items() if value is not None},
        **purpose,
        **changes,
    }


def workspace(**changes: Any) -> Workspace:
    """The cached view of such a Workspace."""
    return msgspec.convert(raw_workspace(**changes), Workspace)


def inference_set(name: str = "models", **changes: Any) -> InferenceSet:
    """The cached view of an InferenceSet."""
    spec = {
        "replicas": 2,
        "labelSelector": {"matchLabels": {"apps": "phi"}},
        "template": {
            "resource": {"instanceType": "Standard_NC24ads_A100_v4"},
            "inference": inference(),
        },
        **changes,
    }
    metadata = {"name": name, "namespace": "default", "uid": "s-1"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, InferenceSet)
