"""The RayJob controller: pure functions from observations to plans.

`state_machine/transitions.py` decides the next state, and whether a failed attempt is retried.
"""

from __future__ import annotations

from controller.ray.job.kind import RayJobKind
from controller.ray.job.settings import JobSettings
from controller.ray.job.status.metrics import JobCollector

__all__ = ["JobCollector", "JobSettings", "RayJobKind"]
