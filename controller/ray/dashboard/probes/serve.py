"""The probes of Ray Serve: what it reports, and whether a proxy answers."""

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


@dataclass(frozen=True, slots=True)
class ProxyProbe(Probe):
    """Asks if a `ServeProxy` takes requests; the value is a `ProxyHealth`.

    Serve goes on reporting a dead proxy as healthy for 20 s, so the proxy itself is asked, and at
    an interval that does not grow as those of other probes do.
    """

    name: ClassVar[str] = "proxy"
    longest_interval: ClassVar[float] = 10.0

    async def send(self, client: DashboardClient) -> ProbeValue:
        """See `Probe.send`."""
        return await client.proxy_health()
