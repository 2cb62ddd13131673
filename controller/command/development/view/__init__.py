"""Live views of a RayCluster, a RayJob, a RayService or a Workspace, with its pods and conditions.

On a terminal the picture is redrawn in place (with `rich`); everywhere else each change is one
plain line. Both read the same informers.
"""

from controller.command.development.view.cluster import ClusterView, RollingView
from controller.command.development.view.screens import ObjectHandler, Screen, screen_for
from controller.command.development.view.service import JobView, ServiceView, in_short
from controller.command.development.view.workspace import WorkspaceView

__all__ = [
    "ClusterView",
    "JobView",
    "ObjectHandler",
    "RollingView",
    "Screen",
    "ServiceView",
    "WorkspaceView",
    "in_short",
    "screen_for",
]
