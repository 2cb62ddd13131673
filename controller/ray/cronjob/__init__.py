"""RayCronJobs: RayJobs made at the times of a schedule."""

from __future__ import annotations

from controller.ray.cronjob.kind import RayCronJobKind
from controller.ray.cronjob.settings import CronJobSettings

__all__ = ["CronJobSettings", "RayCronJobKind"]
