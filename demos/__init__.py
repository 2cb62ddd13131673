"""`manta demo`: embedded cluster, operator and an example in one process, for people to watch.

One demo for each kind; the exit status is 0 only if everything worked and nothing was left behind.
"""

from typing import Final

from demos.cluster import AutoscalingDemo, ClusterDemo, MtlsDemo
from demos.job import JobDemo
from demos.rolling import DrainDemo, RollingDemo
from demos.service import IncrementalDemo, ServiceDemo
from demos.stage import Demo, run
from demos.workspace import WorkspaceDemo

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
