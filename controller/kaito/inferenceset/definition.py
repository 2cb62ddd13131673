"""Fields that an InferenceSet's planner relies on: without them, it would delete replicas.

A set whose `replicas` is dropped requests one replica. While a definition lacks such a field, no
Workspace of a set is written. The set is not written either, because the write would store it
without the missing fields.
"""

from __future__ import annotations

from typing import Final

from controller.kaito.api.definitions.relied_on import (
    INFERENCE_FIELDS,
    NODE_FIELDS,
    WORKSPACE_FIELDS,
)
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.runtime.reconcile.definitions.installed_definition import (
    DefinitionReader,
    DefinitionsReader,
    remedy,
)

RELIED_ON: Final = (
    "spec.replicas",
    "spec.labelSelector.matchLabels",
    "spec.template.metadata",
    *(f"spec.template.resource.{field}" for field in NODE_FIELDS),
    *(f"spec.template.inference.{field}" for field in INFERENCE_FIELDS),
    "status.conditions",
)
"""Fields of a set that decide how many Workspaces there are, and what each is."""

RELIED_ON_IN_WORKSPACES: Final = (*WORKSPACE_FIELDS, "status.conditions")
"""Fields of a Workspace that are copied to it, or say whether it serves."""

_CONSEQUENCE: Final = (
    "InferenceSets are left as they are: no Workspace is created, changed or deleted for them"
)
_REMEDY: Final = remedy("manta crds --kind workspace")


def definitions_reader() -> DefinitionsReader:
    """Return a reader of what the installed definitions of sets and Workspaces lack."""
    own = DefinitionReader(INFERENCE_SETS, lambda _schema: RELIED_ON, _CONSEQUENCE, _REMEDY)
    other = DefinitionReader(
        WORKSPACES, lambda _schema: RELIED_ON_IN_WORKSPACES, _CONSEQUENCE, _REMEDY
    )
    return DefinitionsReader(own, other)
