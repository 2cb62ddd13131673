"""The RayJob controller: a job from its manifest to its end, as pure functions.

What comes next, and whether a failed attempt is retried, is decided in `transitions.py`.
"""

from __future__ import annotations

from controller.ray.job.kind import RayJobKind
from controller.ray.job.settings import JobSettings
from controller.ray.job.status.metrics import JobCollector

__all__ = ["JobCollector", "JobSettings", "RayJobKind"]
