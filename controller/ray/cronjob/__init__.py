"""The RayCronJob controller, which creates RayJobs on a schedule."""

from __future__ import annotations

from controller.ray.cronjob.kind import CronJobSettings, RayCronJobKind

__all__ = ["CronJobSettings", "RayCronJobKind"]
