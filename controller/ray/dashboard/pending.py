"""An open command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from controller.ray.dashboard.commands import Command
    from controller.ray.dashboard.subscriber import Subscriber

CommandId: TypeAlias = tuple[str, str]
"""Name of the controller, and the id that it chose."""


@dataclass(slots=True)
class PendingCommand:
    """A command that has not ended.

    Attributes:
        subscriber: the object that handed it over.
        command: the command.
        expires_at: loop time after which it is not tried again.
        failures: attempts without a definite answer.
        error: of the last one.
        given_up: why it is not tried again; empty while it is.
    """

    subscriber: Subscriber
    command: Command
    expires_at: float
    failures: int = 0
    error: str = ""
    given_up: str = ""

    @property
    def id(self) -> CommandId:
        """Its identity: two controllers may choose the same id."""
        return self.subscriber.controller, self.command.id

    @property
    def expiry_message(self) -> str:
        """What to say of it when it ends without a definite answer."""
        reason = self.given_up or "its time is up"
        return f"{reason}; the last attempt: {self.error}" if self.error else reason
