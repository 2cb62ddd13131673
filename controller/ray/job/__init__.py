"""The RayJob controller: pure functions from observations to plans.

`table.py` decides the next state, and whether a failed attempt is retried.
"""

from __future__ import annotations

from controller.ray.job.kind import RayJobKind
from controller.ray.job.metrics import JobCollector
from controller.ray.job.settings import JobSettings

__all__ = ["JobCollector", "JobSettings", "RayJobKind"]
