"""Probes: requests that a dashboard answers periodically."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from controller.runtime.external import Subscription

if TYPE_CHECKING:
    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.client.values import ProbeValue
    from controller.ray.dashboard.head import Head


@dataclass(frozen=True, slots=True)
class Probe(ABC):
    """One value to observe. Equal probes of a head share their requests.

    Attributes:
        name: name in metrics and logs.
        longest_interval: maximum seconds between two requests, even if the settings allow more.
    """

    name: ClassVar[str]
    longest_interval: ClassVar[float] = math.inf

    @abstractmethod
    async def send(self, client: DashboardClient) -> ProbeValue:
        """Send it once. Raises `DashboardError`."""


@dataclass(frozen=True, slots=True)
class JobProbe(Probe):
    """Reads the state of a job; the value is a `JobInfo` or `NoSuchJob`.

    Attributes:
        job_id: submission id.
    """

    name: ClassVar[str] = "job"

    job_id: str

    async def send(self, client: DashboardClient) -> ProbeValue:
        """Implement `Probe.send`."""
        return await client.job(self.job_id)


@dataclass(frozen=True, slots=True)
class HealthProbe(Probe):
    """Asks whether dashboard and GCS answer; the value is a `RayVersion`."""

    name: ClassVar[str] = "health"

    async def send(self, client: DashboardClient) -> ProbeValue:
        """Implement `Probe.send`."""
        return await client.health()


@dataclass(frozen=True, slots=True)
class ProbeSubscription(Subscription):
    """A probe of a head that is sent for as long as the object's plans list it.

    Attributes:
        head: head whose dashboard is probed.
        probe: the probe to send.
        interval: seconds between two requests while the value changes; None for the default of
            `DashboardSettings`. Subscribers of the same probe share its requests, at the shortest
            interval of any of them.
    """

    head: Head
    probe: Probe
    interval: float | None = None
