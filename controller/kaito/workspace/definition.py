"""The fields on which planning relies: without them, claims would go and servers restart.

A specification that lacks a field asks for something else: its hash is another one, so that the
server or the job is made anew, and its nodes may be others. The API server drops what its
definition lacks without a word, so a Workspace is left as it is until it is certain that its
definition has all that is relied on. It is not written either: the write would store it without
what the definition lacks.
"""

from __future__ import annotations

from typing import Final

from controller.kaito.api.relied_on import WORKSPACE_FIELDS
from controller.kaito.api.workspace import WORKSPACES
from controller.runtime.reconcile.installed_definition import DefinitionReader, remedy

RELIED_ON: Final = (
    *WORKSPACE_FIELDS,
    *(f"status.{field}" for field in ("conditions", "state", "targetNodeCount")),
)
"""All fields of the specification, which are hashed, and those of the status that decide how many
nodes there are and whether the model was served."""

_CONSEQUENCE: Final = (
    "Workspaces are left as they are: nothing is created, changed or deleted for them, and what "
    "serves goes on"
)


def definition_reader() -> DefinitionReader:
    """Reads what the installed definition of Workspaces lacks."""
    return DefinitionReader(
        WORKSPACES, lambda _schema: RELIED_ON, _CONSEQUENCE, remedy("manta crds --kind workspace")
    )
