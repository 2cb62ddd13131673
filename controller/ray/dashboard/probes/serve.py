"""The probe of Ray Serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from controller.ray.dashboard.probes.probe import Probe

if TYPE_CHECKING:
    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.client.values import ProbeValue


@dataclass(frozen=True, slots=True)
class ServeProbe(Probe):
    """The state of Serve; the value is a `ServeState`."""

    name: ClassVar[str] = "serve"

    async def send(self, client: DashboardClient) -> ProbeValue:
        """See `Probe.send`."""
        return await client.serve_state()
