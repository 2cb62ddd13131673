"""What a Workspace's planner relies on: without it, claims would go and servers restart.

A specification that lacks a field asks for something else: its hash is another one, so that the
server or the job is made anew, and its nodes may be others. The API server drops what its
definition lacks without a word, so a Workspace is left as it is until it is certain that its
definition has all that is relied on. It is not written either: the write would store it without
what the definition lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.api.workspace import WORKSPACES
from controller.runtime.plan import Event, Plan
from controller.runtime.reconcile import definition_guard
from controller.runtime.reconcile.installed_definition import (
    EVENT_INTERVAL,
    DefinitionReader,
    remedy,
)

if TYPE_CHECKING:
    from controller.kaito.workspace.observation import WorkspaceObservation

_OPTIONS: Final = ("image", "imagePullSecrets", "modelAccessSecret")
_PRESET: Final = ("name", "accessMode", *(f"presetOptions.{field}" for field in _OPTIONS))
_SOURCE: Final = ("name", "urls", "image", "imagePullSecrets", "volumeSource")
_OUTPUT: Final = ("image", "imagePushSecret", "volumeSource")
RELIED_ON: Final = (
    *(f"resource.{field}" for field in ("count", "instanceType", "preferredNodes")),
    "resource.labelSelector.matchLabels",
    *(f"resource.partition.{field}" for field in ("mode", "profile", "count")),
    *(f"inference.{field}" for field in ("template", "config", "adapters.strength")),
    *(f"inference.preset.{field}" for field in _PRESET),
    *(f"inference.adapters.source.{field}" for field in _SOURCE),
    *(f"tuning.{field}" for field in ("method", "config")),
    *(f"tuning.preset.{field}" for field in _PRESET),
    *(f"tuning.input.{field}" for field in _SOURCE),
    *(f"tuning.output.{field}" for field in _OUTPUT),
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


def leave_as_it_is(seen: WorkspaceObservation) -> Plan | None:
    """The plan that writes nothing and says why; None if the specification can be believed.

    It cannot while the definition is unreadable, or may have changed since the cached objects were
    read.
    """
    definition = seen.definition
    if definition.error:
        event = Event("Warning", "DefinitionUnread", "Reconcile", _unread(definition.error))
        return Plan(events=(event,), requeue_after=EVENT_INTERVAL)
    untouched = definition_guard.leave_as_it_is(seen.workspace, definition)
    if untouched is None and definition.awaited:
        return definition_guard.wait_for_definition(seen.workspace, definition)
    return untouched


def _unread(error: str) -> str:
    return (
        f"the installed definition of Workspaces cannot be read ({error}), and a field that it "
        f"drops would look like an edit. {_CONSEQUENCE}. Grant the operator the right to read "
        "/openapi/v3, as the ClusterRole system:discovery does"
    )
