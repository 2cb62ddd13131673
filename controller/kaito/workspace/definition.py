"""The fields on which planning relies: without them claims would be deleted and servers restarted.

A specification that lacks a field asks for something else: its hash differs, so that the server or
the job would be re-created, and its nodes may differ. The API server silently drops fields that its
definition lacks, so a Workspace is left unchanged until its definition certainly has all of them.
It is not written either, because the write would store it without the missing fields.
"""

from __future__ import annotations

from typing import Final

from controller.kaito.api.definitions.relied_on import WORKSPACE_FIELDS
from controller.kaito.api.workspace import WORKSPACES
from controller.runtime.reconcile.definitions.installed_definition import DefinitionReader, remedy

RELIED_ON: Final = (
    *WORKSPACE_FIELDS,
    *(f"status.{field}" for field in ("conditions", "state", "targetNodeCount")),
)
"""All fields of the specification, which are hashed, and some of the status.

Those of the status decide how many nodes there are and whether the model was served.
"""

_CONSEQUENCE: Final = (
    "Workspaces are left as they are: nothing is created, changed or deleted for them, and what "
    "serves continues"
)


def definition_reader() -> DefinitionReader:
    """Return a reader of what the installed definition of Workspaces lacks."""
    return DefinitionReader(
        WORKSPACES, lambda _schema: RELIED_ON, _CONSEQUENCE, remedy("manta crds --kind workspace")
    )
