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
    """An object wants this asked of this head for as long as its plans say so."""

    head: Head
    probe: Probe
