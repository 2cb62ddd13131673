"""What can be asked of a dashboard once: idempotent commands and how they end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from controller.runtime.reconcile.external import ExternalCommand

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.client.results import CommandValue
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.probes.probe import Probe


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
class HeadCommand(ExternalCommand):
    """A command for one head."""

    head: Head
    command: Command


@dataclass(frozen=True, slots=True)
class CommandDone:
    """Ray did it, or had done it before."""

    name: ClassVar[str] = "done"

    value: CommandValue


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """Ray's definite no; trying again is pointless. `message` is Ray's."""

    name: ClassVar[str] = "refused"

    message: str


@dataclass(frozen=True, slots=True)
class CommandExpired:
    """No definite answer before the deadline: Ray may have done it. `message` says what failed."""

    name: ClassVar[str] = "expired"

    message: str


CommandOutcome: TypeAlias = CommandDone | CommandRefused | CommandExpired
