"""Commands for heads: what each sends to Ray, and the queue in which they wait."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol, TypeAlias

from msgspec import Struct

from controller.ray.dashboard import (
    Head,
    JobSubmission,
    NotFinished,
    RefusedByRay,
    Subscriber,
)
from controller.ray.dashboard.client import DashboardClient
from controller.ray.dashboard.probes import (
    CommandValue,
    JobProbe,
    Probe,
    ProbeObservation,
    ServeProbe,
)
from controller.ray.dashboard.responses import NoSuchJob
from controller.runtime.plan import ExternalCommand

# Commands: requests that a dashboard executes once, and their outcomes.


@dataclass(frozen=True, slots=True)
class Command(ABC):
    """One action on a head, executed at least once: repeating it must change nothing.

    It is given up when its object no longer subscribes to a probe of the head: no object would
    follow what it does, and a head that is gone has nothing left to stop.

    Attributes:
        name: name in metrics, logs and messages.
        reverts: whether it undoes older commands of its name, so that their outcomes are forgotten
            and each may be submitted again.
        asks_often: whether its back-off stays short while Ray works on it: others wait for it.
        id: identity of the command, the same whenever it is submitted again.
        deadline: time after which no further attempt is made.
    """

    name: ClassVar[str]
    reverts: ClassVar[bool] = False
    asks_often: ClassVar[bool] = False

    id: str
    deadline: datetime

    @property
    def invalidates(self) -> tuple[Probe, ...]:
        """Probes whose values count again only when they were sent after the command has ended."""
        return ()

    def supersedes(self, other: Command) -> bool:
        """Return whether this command makes an older one of the same head pointless."""
        del other
        return False

    @abstractmethod
    async def send(self, client: DashboardClient) -> CommandValue:
        """Make one attempt. Raises `DashboardError`."""


@dataclass(frozen=True, slots=True)
class HeadCommand(ExternalCommand):
    """A command for one head."""

    head: Head
    command: Command


class CommandDone(Struct, frozen=True):
    """Ray executed the command, or had executed it before."""

    name: ClassVar[str] = "done"

    value: CommandValue = None


class CommandRefused(Struct, frozen=True):
    """Ray refused the command, and would refuse it again. `message` is Ray's."""

    name: ClassVar[str] = "refused"

    message: str


class CommandExpired(Struct, frozen=True):
    """Ray gave no definite response in time, and may have executed the command.

    `message` describes the failure.
    """

    name: ClassVar[str] = "expired"

    message: str


CommandOutcome: TypeAlias = CommandDone | CommandRefused | CommandExpired


def unconfirmed(outcome: CommandOutcome | None) -> str:
    """Return why an ended command has not had its effect, as far as Ray has said; else empty.

    That it was refused or given up is never its success, whatever is done next.
    """
    return outcome.message if isinstance(outcome, CommandRefused | CommandExpired) else ""


# Commands about jobs.


@dataclass(frozen=True, slots=True)
class SubmitJob(Command):
    """Submit a job. A submission id that Ray already has counts as submitted."""

    name: ClassVar[str] = "submit"

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
        await client.submit(self.submission)


@dataclass(frozen=True, slots=True)
class StopJob(Command):
    """Stop a job. Done only when Ray reports how the job ended, or does not know it.

    Ray accepts the request long before the job ends, and a job that waits for resources may never
    end. So the state is read first, and the request is repeated until the state is terminal. It
    leaves the probe of the job alone: what Ray reports meanwhile is still true.
    """

    name: ClassVar[str] = "stop"

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


# The command that deploys a Serve config.


@dataclass(frozen=True, slots=True)
class PutServeConfig(Command):
    """Deploy a Serve config; a newer one of the same head supersedes it.

    Attributes:
        body: the config as JSON, including `target_capacity`.
    """

    name: ClassVar[str] = "serve"
    reverts: ClassVar[bool] = True

    body: bytes

    @property
    def invalidates(self) -> tuple[Probe, ...]:
        """The state of Serve."""
        return (ServeProbe(),)

    def supersedes(self, other: Command) -> bool:
        """Supersede an older config."""
        return isinstance(other, PutServeConfig)

    async def send(self, client: DashboardClient) -> CommandValue:
        """Implement `Command.send`."""
        await client.put_serve_config(self.body)


# An open command.

CommandId: TypeAlias = tuple[str, str]
"""Name of the controller, and the id that the controller chose."""


@dataclass(slots=True)
class PendingCommand:
    """A command that has not ended.

    Attributes:
        expires_at: loop time after which no further attempt is made.
        failures: attempts without a definite response.
        error: error of the last of them, as a sentence.
        given_up: reason why no further attempt is made; empty while one may be.
        due: loop time of the next attempt; infinite while one is in flight.
    """

    subscriber: Subscriber
    command: Command
    expires_at: float
    failures: int = 0
    error: str = ""
    given_up: str = ""
    due: float = -math.inf

    @property
    def id(self) -> CommandId:
        """Its identity among the commands of a head."""
        return self.subscriber.controller, self.command.id

    @property
    def expiry_message(self) -> str:
        """The reason why it ended without a definite response."""
        reason = self.given_up or "its time is up"
        return f"{reason}; the last attempt: {self.error}" if self.error else reason

    def of(self, controller: str) -> bool:
        """Return whether an object of this controller submitted it."""
        return self.subscriber.controller == controller


# The dashboards as a kind observes them.


class Dashboards(Protocol):
    """The responses of a controller's dashboards. Synchronous, without side effects."""

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """Return the observation of the probe; None if it has no subscriber yet."""
        ...

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        """Return the outcome of a command; None while it is open, unknown or forgotten."""
        ...


class _NoDashboards:
    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        del head, probe

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        del head, command_id


NO_DASHBOARDS: Dashboards = _NoDashboards()
"""Dashboards for planning without Ray: no response is known."""
