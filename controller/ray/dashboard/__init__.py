"""Ray's dashboards: their HTTP API, typed, and the actors that talk to them for the kinds.

A kind reads `Dashboards`; its plans list a `ProbeSubscription` for each probe and a `HeadCommand`
for each command. No worker waits for Ray.
"""

from controller.ray.dashboard.actors import CONCURRENCY, ControllerDashboards, DashboardActors
from controller.ray.dashboard.client import Connector, DashboardClient, RayNode, RayNodes
from controller.ray.dashboard.commands import (
    NO_DASHBOARDS,
    Command,
    CommandDone,
    CommandExpired,
    CommandOutcome,
    CommandRefused,
    Dashboards,
    HeadCommand,
    PutServeConfig,
    StopJob,
    SubmitJob,
    unconfirmed,
)
from controller.ray.dashboard.metrics import (
    DashboardCollector,
    DashboardMetrics,
    DashboardStatistics,
)
from controller.ray.dashboard.own_job import REASON_MESSAGE, CloseConnections, DrainNodes
from controller.ray.dashboard.probes import (
    ActivityProbe,
    HealthProbe,
    JobProbe,
    NodesProbe,
    Probe,
    ProbeObservation,
    ProbeSubscription,
    ProxyProbe,
    ServeProbe,
)
from controller.ray.dashboard.responses import (
    JobInfo,
    JobStatus,
    NoSuchJob,
    RayVersion,
)
from controller.ray.dashboard.serve import (
    ProxyHealth,
    RayActivity,
    ServeApplication,
    ServeDeployment,
    ServeState,
)
from controller.ray.dashboard.values import (
    PURPOSE,
    Head,
    JobSubmission,
    ServeProxy,
)

__all__ = [
    "CONCURRENCY",
    "NO_DASHBOARDS",
    "PURPOSE",
    "REASON_MESSAGE",
    "ActivityProbe",
    "CloseConnections",
    "Command",
    "CommandDone",
    "CommandExpired",
    "CommandOutcome",
    "CommandRefused",
    "Connector",
    "ControllerDashboards",
    "DashboardActors",
    "DashboardClient",
    "DashboardCollector",
    "DashboardMetrics",
    "DashboardStatistics",
    "Dashboards",
    "DrainNodes",
    "Head",
    "HeadCommand",
    "HealthProbe",
    "JobInfo",
    "JobProbe",
    "JobStatus",
    "JobSubmission",
    "NoSuchJob",
    "NodesProbe",
    "Probe",
    "ProbeObservation",
    "ProbeSubscription",
    "ProxyHealth",
    "ProxyProbe",
    "PutServeConfig",
    "RayActivity",
    "RayNode",
    "RayNodes",
    "RayVersion",
    "ServeApplication",
    "ServeDeployment",
    "ServeProbe",
    "ServeProxy",
    "ServeState",
    "StopJob",
    "SubmitJob",
    "unconfirmed",
]
