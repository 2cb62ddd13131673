"""The Workspace kind: a model on its own GPU nodes, and a controller that never waits."""

from controller.kaito.workspace.kind import WorkspaceKind
from controller.kaito.workspace.observation import WorkspaceSettings
from controller.kaito.workspace.orphans import OrphanCollector

__all__ = ["OrphanCollector", "WorkspaceKind", "WorkspaceSettings"]
