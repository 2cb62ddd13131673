"""What can be asked of a dashboard again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from controller.ray.dashboard.head import Head


@dataclass(frozen=True, slots=True)
class JobProbe:
    """How a job is; its value is a `JobInfo` or `NoSuchJob`.

    Attributes:
        job_id: submission id.
    """

    job_id: str


@dataclass(frozen=True, slots=True)
class HealthProbe:
    """Whether dashboard and GCS answer; its value is a `Version`."""


Probe: TypeAlias = JobProbe | HealthProbe


@dataclass(frozen=True, slots=True)
class Interest:
    """An object wants this asked of this head for as long as its plans say so.

    Attributes:
        head: whose dashboard is asked.
        probe: what is asked.
        interval: seconds between two requests while the value changes; None for the default of
            `DashboardSettings`. Subscribers of the same probe share its requests, at the shortest
            interval of any of them.
    """

    head: Head
    probe: Probe
    interval: float | None = None
