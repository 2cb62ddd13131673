"""Commands about jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from controller.ray.dashboard.client.results import NoSuchJob
from controller.ray.dashboard.commands.command import Command
from controller.ray.dashboard.errors import NotFinished, RefusedByRay
from controller.ray.dashboard.probes.probe import JobProbe

if TYPE_CHECKING:
    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.client.submission import JobSubmission
    from controller.ray.dashboard.client.values import CommandValue
    from controller.ray.dashboard.probes.probe import Probe


@dataclass(frozen=True, slots=True)
class SubmitJob(Command):
    """Submit a job. A submission id that Ray already has counts as submitted.

    It needs a subscriber: otherwise no object would follow the job.

    Attributes:
        submission: the job.
    """

    name: ClassVar[str] = "submit"
    needs_subscriber: ClassVar[bool] = True

    submission: JobSubmission

    @property
    def job_id(self) -> str:
        """Submission id of the job."""
        return self.submission.submission_id

    @property
    def invalidates(self) -> tuple[Probe, ...]:
        """The state of the job."""
        return (JobProbe(self.job_id),)

    async def send(self, client: DashboardClient) -> CommandValue:
        """Implement `Command.send`."""
        return await client.submit(self.submission)


@dataclass(frozen=True, slots=True)
class StopJob(Command):
    """Stop a job. Done only when Ray reports how the job ended, or does not know it.

    Ray accepts the request long before the job ends, and a job that waits for resources may never
    end. So the state is read first, and the request is repeated until the state is terminal. It
    leaves the probe of the job alone: what Ray reports meanwhile is still true. It needs a
    subscriber: a head that is gone, or an object that has been let go, has nothing left to stop.

    Attributes:
        job_id: submission id of the job.
    """

    name: ClassVar[str] = "stop"
    needs_subscriber: ClassVar[bool] = True

    job_id: str

    def supersedes(self, other: Command) -> bool:
        """Supersede the submission of the same job."""
        return isinstance(other, SubmitJob) and other.job_id == self.job_id

    async def send(self, client: DashboardClient) -> CommandValue:
        """Implement `Command.send`."""
        job = await client.job(self.job_id)
        if isinstance(job, NoSuchJob) or job.status.terminal:
            return job
        try:
            if isinstance(await client.stop(self.job_id), NoSuchJob):
                return NoSuchJob()
        except RefusedByRay as refusal:  # no end of the job: it is asked for again
            raise NotFinished(f"Ray did not accept the stop: {refusal}") from refusal
        raise NotFinished(f"job {self.job_id} is {job.status.value}, and was asked to stop")
