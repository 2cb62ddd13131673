"""The probes of heads, and what one has seen."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeAlias

from msgspec import Struct

from controller.ray.dashboard.client import DashboardClient, RayNodes
from controller.ray.dashboard.responses import JobInfo, NoSuchJob, RayVersion
from controller.ray.dashboard.serve import ProxyHealth, RayActivity, ServeState
from controller.ray.dashboard.values import Head
from controller.runtime.plan import Subscription

# The possible results of probes and commands.

ProbeValue: TypeAlias = (
    JobInfo | NoSuchJob | RayVersion | ServeState | ProxyHealth | RayNodes | RayActivity
)
CommandValue: TypeAlias = JobInfo | NoSuchJob | None
"""What Ray says about a stopped job; None of other commands, which it has carried out."""


# Probes: requests that a dashboard answers periodically.


@dataclass(frozen=True, slots=True)
class Probe(ABC):
    """One value to observe. Equal probes of a head share their requests.

    Attributes:
        name: name in metrics and logs.
        longest_interval: maximum seconds between two requests, however long the value has stayed.
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
    """

    head: Head
    probe: Probe


# The state of a probe as a kind observes it.


class ProbeObservation(Struct, frozen=True):
    """The state of one probe.

    Attributes:
        value: the last definite response; None if there is none yet, or none since the end of the
            last command that invalidates the probe. None means unknown, never absent.
        since: time when `value` last changed.
        last_success: start of the last request that had a definite response.
        failing_since: start of the first of the consecutive failed requests; None while there are
            too few of them.
        error: error of the last of them, as a sentence; empty without `failing_since`.
    """

    value: ProbeValue | None
    since: datetime
    last_success: datetime | None = None
    failing_since: datetime | None = None
    error: str = ""


# The probe of Ray's nodes.


@dataclass(frozen=True, slots=True)
class NodesProbe(Probe):
    """Reads the nodes that have joined or ended; the value is a `RayNodes`."""

    name: ClassVar[str] = "nodes"
    longest_interval: ClassVar[float] = 10.0

    async def send(self, client: DashboardClient) -> ProbeValue:
        """Implement `Probe.send`."""
        return await client.nodes()


# The probe of what uses a cluster.


@dataclass(frozen=True, slots=True)
class ActivityProbe(Probe):
    """Asks what uses the cluster; the value is a `RayActivity`."""

    name: ClassVar[str] = "activity"
    longest_interval: ClassVar[float] = 30.0

    async def send(self, client: DashboardClient) -> ProbeValue:
        """Implement `Probe.send`."""
        return await client.activity()


# The probes of Ray Serve: its state, and whether a proxy answers.


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
