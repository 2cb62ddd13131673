"""Fields that the planners of Workspaces and of InferenceSets rely on, by the part they belong to.

The API server silently drops fields that the installed definition lacks, and a specification that
lacks a field asks for something else.
"""

from __future__ import annotations

from typing import Final

_OPTIONS: Final = ("image", "imagePullSecrets", "modelAccessSecret")
_PRESET: Final = ("name", "accessMode", *(f"presetOptions.{field}" for field in _OPTIONS))
_SOURCE: Final = ("name", "urls", "image", "imagePullSecrets", "volumeSource")
_OUTPUT: Final = ("image", "imagePushSecret", "volumeSource")

NODE_FIELDS: Final = (
    "instanceType",
    *(f"partition.{field}" for field in ("mode", "profile", "count")),
)
"""The nodes of a Workspace, and of those that an InferenceSet creates."""

INFERENCE_FIELDS: Final = (
    *("template", "config", "adapters.strength"),
    *(f"preset.{field}" for field in _PRESET),
    *(f"adapters.source.{field}" for field in _SOURCE),
)
"""Fields of `inference`."""

TUNING_FIELDS: Final = (
    *("method", "config"),
    *(f"preset.{field}" for field in _PRESET),
    *(f"input.{field}" for field in _SOURCE),
    *(f"output.{field}" for field in _OUTPUT),
)
"""Fields of `tuning`."""

WORKSPACE_FIELDS: Final = (
    *(f"resource.{field}" for field in ("count", "preferredNodes", *NODE_FIELDS)),
    "resource.labelSelector.matchLabels",
    *(f"inference.{field}" for field in INFERENCE_FIELDS),
    *(f"tuning.{field}" for field in TUNING_FIELDS),
)
"""The whole specification of a Workspace, which is hashed."""
