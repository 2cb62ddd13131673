"""The history of a Workspace: which revision is the present one, and what is written for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.workloads import next_revision
from controller.kaito.workspace.watches import REVISIONS
from controller.runtime.plan import Create, Delete, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.workloads import HistoryStep
    from controller.kaito.workspace.observation import WorkspaceObservation
    from controller.runtime.plan import Write

SCOPE: Final = "history"
"""Scope of writes to the history: while the outcome of one is unknown, none is sent."""


def history_of(seen: WorkspaceObservation) -> HistoryStep:
    """Return the present revision of a valid Workspace."""
    found = seen.workload
    return next_revision(
        seen.workspace, seen.valid_goal.hash, found.revisions, found.foreign_revisions
    )


def write_history(seen: WorkspaceObservation, history: HistoryStep) -> Iterator[Write]:
    """Create the present revision if it is missing, and delete the oldest if there are too many."""
    if history.create is None or seen.workload.has_pending_history:
        return
    namespace = seen.workspace.metadata.namespace
    yield Create(Target(REVISIONS, namespace, history.name, scope=SCOPE), history.create)
    if history.surplus is not None:
        oldest = history.surplus.metadata
        yield Delete(Target(REVISIONS, namespace, oldest.name, scope=SCOPE), oldest.uid)
