"""The command that drains nodes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from controller.ray.dashboard.client.draining import NodesDraining, drain_submission
from controller.ray.dashboard.client.responses import last_line
from controller.ray.dashboard.client.results import JobStatus, NoSuchJob
from controller.ray.dashboard.commands.command import Command
from controller.ray.dashboard.errors import DashboardError, NotFinished, RefusedByRay

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.client.values import CommandValue


@dataclass(frozen=True, slots=True)
class DrainNodes(Command):
    """Drain nodes with a job of its own. Done when Ray has accepted it; the nodes end later.

    The id of the job follows from that of the command, so a job that Ray already has is not
    submitted again, not even by another process of the operator. A job that succeeded is deleted. A
    job that failed is kept for its log, and the command is refused: an old Ray cannot drain nodes.

    It needs a subscriber: otherwise no object would follow the nodes.

    Attributes:
        nodes: ids of `RayNode`. One that is dead or unknown to Ray counts as drained.
        until: time at which remaining work is killed. Ray gets it and does not act on it.
    """

    name: ClassVar[str] = "drain"
    needs_subscriber: ClassVar[bool] = True

    nodes: tuple[str, ...]
    until: datetime

    @property
    def job_id(self) -> str:
        """Submission id of the job."""
        return f"manta-{self.id}"

    async def send(self, client: DashboardClient) -> CommandValue:
        """Implement `Command.send`."""
        job = await client.job(self.job_id)
        if isinstance(job, NoSuchJob):
            await client.submit(drain_submission(self.job_id, self.nodes, self.until))
            raise NotFinished(f"job {self.job_id} was submitted")
        state = f"{job.status.value}: {last_line(job.message)}"
        if not job.status.terminal:
            raise NotFinished(f"job {self.job_id} is {state}")
        if job.status is not JobStatus.SUCCEEDED:
            raise RefusedByRay(f"job {self.job_id} is {state}")
        with suppress(DashboardError):
            await client.delete(self.job_id)
        return NodesDraining(len(self.nodes))
