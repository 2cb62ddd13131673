"""The command that deploys a Serve config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from controller.ray.dashboard.commands.command import Command
from controller.ray.dashboard.probes.serve import ServeProbe

if TYPE_CHECKING:
    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.client.values import CommandValue
    from controller.ray.dashboard.probes.probe import Probe


@dataclass(frozen=True, slots=True)
class PutServeConfig(Command):
    """Deploy a Serve config; a newer one of the same head supersedes it.

    It needs a subscriber: otherwise no object would follow the applications.

    Attributes:
        body: the config as JSON, including `target_capacity`.
    """

    name: ClassVar[str] = "serve"
    needs_subscriber: ClassVar[bool] = True
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
        return await client.put_serve_config(self.body)
