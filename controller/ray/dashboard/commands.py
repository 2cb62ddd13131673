"""What can be asked of a dashboard once: idempotent commands and how they end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from controller.ray.dashboard.probes import JobProbe
from controller.runtime.reconcile.external import ExternalCommand

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client import DashboardClient
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.probes import Probe
    from controller.ray.dashboard.results import CommandValue
    from controller.ray.dashboard.submission import JobSubmission


@dataclass(frozen=True, slots=True)
class Command(ABC):
    """One thing to do on a head, at least once: repeating it must change nothing.

    Attributes:
        name: in metrics, logs and messages.
        needs_subscriber: whether it is given up when the object that wants it loses its last
            interest in the head before the request was sent.
        id: identity of the command, the same whenever it is handed over again.
        deadline: no further attempt is made after it.
    """

    name: ClassVar[str]
    needs_subscriber: ClassVar[bool] = False

    id: str
    deadline: datetime

    @property
    def invalidates(self) -> tuple[Probe, ...]:
        """Probes whose values do not count until the command has ended and they are asked again."""
        return ()

    def supersedes(self, other: Command) -> bool:
        """Whether this command makes an older one of the same head pointless."""
        del other
        return False

    @abstractmethod
    async def send(self, client: DashboardClient) -> CommandValue:
        """Make one attempt. Raises `DashboardError`."""


@dataclass(frozen=True, slots=True)
class SubmitJob(Command):
    """Submit a job. An id that Ray knows already counts as submitted.

    It needs a subscriber: otherwise nobody would learn of the job.

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
        """See `Command.send`."""
        return await client.submit(self.submission)


@dataclass(frozen=True, slots=True)
class _EndJob(Command):
    """A command after which a job must not be submitted any more.

    Attributes:
        job_id: submission id of the job.
    """

    job_id: str

    @property
    def invalidates(self) -> tuple[Probe, ...]:
        """The state of the job."""
        return (JobProbe(self.job_id),)

    def supersedes(self, other: Command) -> bool:
        """The submission of the same job."""
        return isinstance(other, SubmitJob) and other.job_id == self.job_id


@dataclass(frozen=True, slots=True)
class StopJob(_EndJob):
    """Stop a job. Done when Ray has taken note of it, or knows no such job."""

    name: ClassVar[str] = "stop"

    async def send(self, client: DashboardClient) -> CommandValue:
        """See `Command.send`."""
        return await client.stop(self.job_id)


@dataclass(frozen=True, slots=True)
class DeleteJob(_EndJob):
    """Make Ray forget a job that has ended.

    Ray answers 500 while the job still runs: the request is repeated until the deadline.
    """

    name: ClassVar[str] = "delete"

    async def send(self, client: DashboardClient) -> CommandValue:
        """See `Command.send`."""
        return await client.delete(self.job_id)


@dataclass(frozen=True, slots=True)
class HeadCommand(ExternalCommand):
    """A command for one head."""

    head: Head
    command: Command


@dataclass(frozen=True, slots=True)
class CommandDone:
    """Ray did it, or had done it before."""

    value: CommandValue


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """Ray's definite no; trying again is pointless. `message` is Ray's."""

    message: str


@dataclass(frozen=True, slots=True)
class CommandExpired:
    """No definite answer before the deadline: Ray may have done it. `message` says what failed."""

    message: str


CommandOutcome: TypeAlias = CommandDone | CommandRefused | CommandExpired
