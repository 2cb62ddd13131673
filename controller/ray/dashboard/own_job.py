"""Commands that Manta carries out with a job of its own, because Ray has no request for them."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from controller.ray.dashboard.closing import (
    ConnectionsClosed,
    NodesDraining,
    closing_submission,
    drain_submission,
)
from controller.ray.dashboard.commands import Command
from controller.ray.dashboard.responses import JobStatus, NoSuchJob, last_line
from controller.ray.dashboard.values import DashboardError, NotFinished, RefusedByRay

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client import DashboardClient
    from controller.ray.dashboard.closing import JobSubmission
    from controller.ray.dashboard.probes import CommandValue


class OwnJob(Command):
    """A command that is done when its job has succeeded.

    The id of the job follows from that of the command, so a job that Ray already has is not
    submitted again, not even by another process of the operator. A job that succeeded is deleted. A
    job that failed is kept for its log, and the command is refused.

    It needs a subscriber: otherwise no object would follow what the job does.
    """

    needs_subscriber: ClassVar[bool] = True
    asks_often: ClassVar[bool] = True

    @property
    def job_id(self) -> str:
        """Submission id of the job."""
        return f"manta-{self.id}"

    @property
    @abstractmethod
    def submission(self) -> JobSubmission:
        """The job."""

    @property
    @abstractmethod
    def value(self) -> CommandValue:
        """The meaning of its success."""

    async def send(self, client: DashboardClient) -> CommandValue:
        """Implement `Command.send`."""
        job = await client.job(self.job_id)
        if isinstance(job, NoSuchJob):
            await client.submit(self.submission)
            raise NotFinished(f"job {self.job_id} was submitted")
        state = f"{job.status.value}: {last_line(job.message)}"
        if not job.status.terminal:
            raise NotFinished(f"job {self.job_id} is {state}")
        if job.status is not JobStatus.SUCCEEDED:
            raise RefusedByRay(f"job {self.job_id} is {state}")
        with suppress(DashboardError):
            await client.delete(self.job_id)
        return self.value


@dataclass(frozen=True, slots=True)
class DrainNodes(OwnJob):
    """Drain nodes. Done when Ray has accepted it; the nodes end later.

    It is refused by an old Ray, which cannot drain nodes.

    Attributes:
        nodes: ids of `RayNode`. One that is dead or unknown to Ray counts as drained.
        until: time at which remaining work is killed. Ray gets it and does not act on it.
        serving: whether Serve's proxies on them close their connections.
    """

    name: ClassVar[str] = "drain"

    nodes: tuple[str, ...]
    until: datetime
    serving: bool = False

    @property
    def submission(self) -> JobSubmission:
        """Implement `OwnJob.submission`."""
        return drain_submission(self.job_id, self.nodes, self.until, serving=self.serving)

    @property
    def value(self) -> CommandValue:
        """Implement `OwnJob.value`."""
        return NodesDraining(len(self.nodes))


@dataclass(frozen=True, slots=True)
class CloseConnections(OwnJob):
    """Let the Serve proxies of a cluster close their connections in order.

    Done when none is left, or `until` has passed.

    Attributes:
        due: time from which WebSockets are closed too.
        until: time at which it ends in any case.
        ends: whether the cluster is deleted after that.
    """

    name: ClassVar[str] = "close"

    due: datetime
    until: datetime
    ends: bool

    @property
    def submission(self) -> JobSubmission:
        """Implement `OwnJob.submission`."""
        return closing_submission(self.job_id, self.due, self.until, ends=self.ends)

    @property
    def value(self) -> CommandValue:
        """Implement `OwnJob.value`."""
        return ConnectionsClosed()
