"""Live views of a RayCluster, a RayJob, a RayService or a Workspace, with its pods and conditions.

On a terminal the picture is redrawn in place (with `rich`); everywhere else each change is one
plain line. Both read the same informers.
"""

from controller.command.development.view.cluster import ClusterView
from controller.command.development.view.job import JobView, in_short
from controller.command.development.view.object_handler import ObjectHandler
from controller.command.development.view.rolling import RollingView
from controller.command.development.view.screens import Screen, screen_for
from controller.command.development.view.service import ServiceView
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
