"""The probes of Ray Serve: its state, and whether a proxy answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from controller.ray.dashboard.probes.probe import Probe

if TYPE_CHECKING:
    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.client.values import ProbeValue


@dataclass(frozen=True, slots=True)
class ServeProbe(Probe):
    """Reads the state of Serve; the value is a `ServeState`."""

    name: ClassVar[str] = "serve"

    async def send(self, client: DashboardClient) -> ProbeValue:
        """Implement `Probe.send`."""
        return await client.serve_state()


@dataclass(frozen=True, slots=True)
class ProxyProbe(Probe):
    """Asks whether a `ServeProxy` takes requests; the value is a `ProxyHealth`.

    Serve reports a dead proxy as healthy for another 20 s, so the probe asks the proxy itself, at
    an interval that does not grow like those of other probes.
    """

    name: ClassVar[str] = "proxy"
    longest_interval: ClassVar[float] = 10.0

    async def send(self, client: DashboardClient) -> ProbeValue:
        """Implement `Probe.send`."""
        return await client.proxy_health()
