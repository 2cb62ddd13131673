"""Which call a probe or a command is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from controller.ray.dashboard.commands import DeleteJob, StopJob, SubmitJob
from controller.ray.dashboard.probes import HealthProbe, JobProbe

if TYPE_CHECKING:
    from controller.ray.dashboard.client import DashboardClient
    from controller.ray.dashboard.commands import Command
    from controller.ray.dashboard.probes import Probe
    from controller.ray.dashboard.results import CommandValue, ProbeValue

Subject: TypeAlias = "Command | Probe"


async def probe_with(client: DashboardClient, probe: Probe) -> ProbeValue:
    """Ask. Raises `DashboardError`."""
    match probe:
        case JobProbe(job_id):
            return await client.job(job_id)
        case HealthProbe():
            return await client.health()


async def carry_out(client: DashboardClient, command: Command) -> CommandValue:
    """Do it. Raises `DashboardError`."""
    match command:
        case SubmitJob():
            return await client.submit(command.submission)
        case StopJob():
            return await client.stop(command.job_id)
        case DeleteJob():
            return await client.delete(command.job_id)


def name_of(subject: Subject) -> str:
    """In metrics and logs."""
    match subject:
        case JobProbe():
            return "job"
        case HealthProbe():
            return "health"
        case SubmitJob():
            return "submit"
        case StopJob():
            return "stop"
        case DeleteJob():
            return "delete"
