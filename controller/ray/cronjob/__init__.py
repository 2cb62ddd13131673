"""The RayCronJob controller, which creates RayJobs on a schedule."""

from __future__ import annotations

from controller.ray.cronjob.kind import RayCronJobKind
from controller.ray.cronjob.settings import CronJobSettings

__all__ = ["CronJobSettings", "RayCronJobKind"]
