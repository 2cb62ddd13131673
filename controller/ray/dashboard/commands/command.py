"""Commands: requests that a dashboard executes once, and their outcomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from controller.runtime.external import ExternalCommand

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.client.values import CommandValue
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.probes.probe import Probe


@dataclass(frozen=True, slots=True)
class Command(ABC):
    """One action on a head, executed at least once: repeating it must change nothing.

    Attributes:
        name: name in metrics, logs and messages.
        needs_subscriber: whether it is given up when its object no longer subscribes to a probe of
            the head.
        reverts: whether it undoes older commands of its name, so that their outcomes are forgotten
            and each may be submitted again.
        asks_often: whether its back-off stays short while Ray works on it: others wait for it.
        id: identity of the command, the same whenever it is submitted again.
        deadline: time after which no further attempt is made.
    """

    name: ClassVar[str]
    needs_subscriber: ClassVar[bool] = False
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


@dataclass(frozen=True, slots=True)
class CommandDone:
    """Ray executed the command, or had executed it before."""

    name: ClassVar[str] = "done"

    value: CommandValue


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """Ray refused the command, and would refuse it again. `message` is Ray's."""

    name: ClassVar[str] = "refused"

    message: str


@dataclass(frozen=True, slots=True)
class CommandExpired:
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
