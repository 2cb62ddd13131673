"""The status of a Workspace that is being deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import ConditionSet
from controller.runtime.plan import StatusPatch

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.workspace.observation import WorkspaceObservation

WORKSPACE_DELETING: Final = "WorkspaceDeleting"


def deleting_status(
    seen: WorkspaceObservation, remaining: tuple[str, ...], now: datetime
) -> StatusPatch:
    """Return the one condition that is set then; it names what is waited for."""
    message = "workspace is being deleted"
    if remaining:
        message = f"{message}; waiting until these are gone: {', '.join(remaining)}"
    conditions = ConditionSet(seen.conditions, seen.workspace.metadata.generation, now)
    conditions.set(WORKSPACE_DELETING, "True", "workspaceDeleted", message)
    return StatusPatch({"conditions": conditions.as_list()})
