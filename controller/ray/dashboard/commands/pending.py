"""An open command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from controller.ray.dashboard.commands.command import Command
    from controller.ray.dashboard.subscriber import Subscriber

CommandId: TypeAlias = tuple[str, str]
"""Name of the controller, and the id that the controller chose."""


@dataclass(slots=True)
class PendingCommand:
    """A command that has not ended.

    Attributes:
        subscriber: the object that submitted it.
        command: the command.
        expires_at: loop time after which no further attempt is made.
        failures: attempts without a definite response.
        error: error of the last of them, as a sentence.
        given_up: reason why no further attempt is made; empty while one may be.
    """

    subscriber: Subscriber
    command: Command
    expires_at: float
    failures: int = 0
    error: str = ""
    given_up: str = ""

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
