"""The Workspace kind: a model on its own GPU nodes, and a controller that never waits."""

from controller.kaito.workspace.kind import WorkspaceKind
from controller.kaito.workspace.nodes.orphans import OrphanCollector
from controller.kaito.workspace.settings import WorkspaceSettings

__all__ = ["OrphanCollector", "WorkspaceKind", "WorkspaceSettings"]
