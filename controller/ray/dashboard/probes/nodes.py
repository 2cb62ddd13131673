"""The probe of Ray's nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from controller.ray.dashboard.probes.probe import Probe

if TYPE_CHECKING:
    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.client.values import ProbeValue


@dataclass(frozen=True, slots=True)
class NodesProbe(Probe):
    """Reads the nodes that have joined or ended; the value is a `RayNodes`."""

    name: ClassVar[str] = "nodes"
    longest_interval: ClassVar[float] = 10.0

    async def send(self, client: DashboardClient) -> ProbeValue:
        """Implement `Probe.send`."""
        return await client.nodes()
