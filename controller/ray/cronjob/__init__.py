"""The RayCronJob kind, which creates RayJobs on a schedule.

`observe.py` gathers the runs, `kind.py` decides which is due or goes, `status.py` holds the times.
"""

from __future__ import annotations

from controller.ray.cronjob.kind import RayCronJobKind

__all__ = ["RayCronJobKind"]
