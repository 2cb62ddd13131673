"""Ray's dashboards: their HTTP API, typed, and the actors that talk to them for the kinds.

Planners read `Dashboards`, name what they want as `ProbeSubscription` and `HeadCommand`, and never wait.
"""

from controller.ray.dashboard.actors import ControllerDashboards, DashboardActors
from controller.ray.dashboard.commands import (
    Command,
    CommandDone,
    CommandExpired,
    CommandOutcome,
    CommandRefused,
    DeleteJob,
    HeadCommand,
    StopJob,
    SubmitJob,
)
from controller.ray.dashboard.head import Head
from controller.ray.dashboard.observation import NO_DASHBOARDS, Dashboards, ProbeObservation
from controller.ray.dashboard.probes import HealthProbe, JobProbe, Probe, ProbeSubscription
from controller.ray.dashboard.results import (
    Deleted,
    JobInfo,
    JobStatus,
    NoSuchJob,
    RayVersion,
    Stopped,
    Submitted,
)
from controller.ray.dashboard.submission import JobSubmission

__all__ = [
    "NO_DASHBOARDS",
    "Command",
    "CommandDone",
    "CommandExpired",
    "CommandOutcome",
    "CommandRefused",
    "ControllerDashboards",
    "DashboardActors",
    "Dashboards",
    "DeleteJob",
    "Deleted",
    "Head",
    "HeadCommand",
    "HealthProbe",
    "JobInfo",
    "JobProbe",
    "JobStatus",
    "JobSubmission",
    "NoSuchJob",
    "Probe",
    "ProbeObservation",
    "ProbeSubscription",
    "RayVersion",
    "StopJob",
    "Stopped",
    "SubmitJob",
    "Submitted",
]
