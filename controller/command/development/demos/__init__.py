"""`manta demo`: embedded cluster, operator and an example in one process, for people to watch.

One demo for each kind; the exit status is 0 only if everything worked and nothing was left behind.
"""

from typing import Final

from controller.command.development.demos.cluster import AutoscalingDemo, ClusterDemo, MtlsDemo
from controller.command.development.demos.job import JobDemo
from controller.command.development.demos.rolling import DrainDemo, RollingDemo
from controller.command.development.demos.service import IncrementalDemo, ServiceDemo
from controller.command.development.demos.stage import Demo, run
from controller.command.development.demos.workspace import WorkspaceDemo

__all__ = ["DEMOS", "Demo", "IncrementalDemo", "run"]

DEMOS: Final[dict[str, type[Demo]]] = {
    "autoscaling": AutoscalingDemo,
    "drain": DrainDemo,
    "mtls": MtlsDemo,
    "raycluster": ClusterDemo,
    "rayjob": JobDemo,
    "rayservice": ServiceDemo,
    "rayservice-incremental": IncrementalDemo,
    "rolling": RollingDemo,
    "workspace": WorkspaceDemo,
}
