"""Ray's dashboards: their HTTP API, typed, and the actors that talk to them for the kinds.

Planners read `Dashboards`, name what they want as `Interest` and `Order`, and never wait.
"""

from controller.ray.dashboard.actors import ControllerDashboards, DashboardActors
from controller.ray.dashboard.commands import (
    Command,
    DeleteJob,
    Done,
    Expired,
    Order,
    Outcome,
    Refused,
    StopJob,
    SubmitJob,
)
from controller.ray.dashboard.head import Head
from controller.ray.dashboard.observation import NO_DASHBOARDS, Dashboards, Observation
from controller.ray.dashboard.probes import HealthProbe, Interest, JobProbe, Probe
from controller.ray.dashboard.results import (
    Deleted,
    JobInfo,
    JobStatus,
    NoSuchJob,
    Stopped,
    Submitted,
    Version,
)
from controller.ray.dashboard.submission import Submission

__all__ = [
    "NO_DASHBOARDS",
    "Command",
    "ControllerDashboards",
    "DashboardActors",
    "Dashboards",
    "DeleteJob",
    "Deleted",
    "Done",
    "Expired",
    "Head",
    "HealthProbe",
    "Interest",
    "JobInfo",
    "JobProbe",
    "JobStatus",
    "NoSuchJob",
    "Observation",
    "Order",
    "Outcome",
    "Probe",
    "Refused",
    "StopJob",
    "Stopped",
    "Submission",
    "SubmitJob",
    "Submitted",
    "Version",
]
