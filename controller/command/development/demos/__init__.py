"""`manta demo`: embedded cluster, operator and an example in one process, for people to watch.

One demo for each kind; the exit status is 0 only if everything worked.
"""

from controller.command.development.demos.autoscaling import autoscaling_demo
from controller.command.development.demos.cluster import cluster_demo
from controller.command.development.demos.drain import drain_demo
from controller.command.development.demos.incremental import incremental_demo
from controller.command.development.demos.job import job_demo
from controller.command.development.demos.mtls import mtls_demo
from controller.command.development.demos.real_ray import MachineOptions
from controller.command.development.demos.rolling import rolling_demo
from controller.command.development.demos.service import service_demo
from controller.command.development.demos.workspace import workspace_demo

__all__ = [
    "MachineOptions",
    "autoscaling_demo",
    "cluster_demo",
    "drain_demo",
    "incremental_demo",
    "job_demo",
    "mtls_demo",
    "rolling_demo",
    "service_demo",
    "workspace_demo",
]
