"""Ray's dashboards: their HTTP API, typed, and the actors that talk to them for the kinds.

A kind reads `Dashboards`; its plans list a `ProbeSubscription` for each probe and a `HeadCommand`
for each command. No worker waits for Ray.
"""

from controller.ray.dashboard.actors.actors import CONCURRENCY, DashboardActors
from controller.ray.dashboard.actors.controller import ControllerDashboards
from controller.ray.dashboard.client.client import DashboardClient
from controller.ray.dashboard.client.closing import ConnectionsClosed
from controller.ray.dashboard.client.draining import NodesDraining
from controller.ray.dashboard.client.nodes import RayNode, RayNodes
from controller.ray.dashboard.client.results import (
    JobDeleted,
    JobInfo,
    JobStatus,
    JobStopped,
    NoSuchJob,
    RayVersion,
    Submitted,
)
from controller.ray.dashboard.client.serve import (
    ProxyHealth,
    ServeApplication,
    ServeConfigAccepted,
    ServeDeployment,
    ServeState,
)
from controller.ray.dashboard.client.submission import JobSubmission
from controller.ray.dashboard.commands.command import (
    Command,
    CommandDone,
    CommandExpired,
    CommandOutcome,
    CommandRefused,
    HeadCommand,
    unconfirmed,
)
from controller.ray.dashboard.commands.jobs import StopJob, SubmitJob
from controller.ray.dashboard.commands.own_job import CloseConnections, DrainNodes
from controller.ray.dashboard.commands.serve import PutServeConfig
from controller.ray.dashboard.connector import Connector
from controller.ray.dashboard.dashboards import NO_DASHBOARDS, Dashboards
from controller.ray.dashboard.head import Head, ServeProxy
from controller.ray.dashboard.metrics import DashboardStatistics
from controller.ray.dashboard.probes.nodes import NodesProbe
from controller.ray.dashboard.probes.observation import ProbeObservation
from controller.ray.dashboard.probes.probe import HealthProbe, JobProbe, Probe, ProbeSubscription
from controller.ray.dashboard.probes.serve import ProxyProbe, ServeProbe
from controller.ray.dashboard.prometheus import DashboardCollector, DashboardMetrics
from controller.ray.dashboard.settings import DashboardSettings

__all__ = [
    "CONCURRENCY",
    "NO_DASHBOARDS",
    "CloseConnections",
    "Command",
    "CommandDone",
    "CommandExpired",
    "CommandOutcome",
    "CommandRefused",
    "ConnectionsClosed",
    "Connector",
    "ControllerDashboards",
    "DashboardActors",
    "DashboardClient",
    "DashboardCollector",
    "DashboardMetrics",
    "DashboardSettings",
    "DashboardStatistics",
    "Dashboards",
    "DrainNodes",
    "Head",
    "HeadCommand",
    "HealthProbe",
    "JobDeleted",
    "JobInfo",
    "JobProbe",
    "JobStatus",
    "JobStopped",
    "JobSubmission",
    "NoSuchJob",
    "NodesDraining",
    "NodesProbe",
    "Probe",
    "ProbeObservation",
    "ProbeSubscription",
    "ProxyHealth",
    "ProxyProbe",
    "PutServeConfig",
    "RayNode",
    "RayNodes",
    "RayVersion",
    "ServeApplication",
    "ServeConfigAccepted",
    "ServeDeployment",
    "ServeProbe",
    "ServeProxy",
    "ServeState",
    "StopJob",
    "SubmitJob",
    "Submitted",
    "unconfirmed",
]
