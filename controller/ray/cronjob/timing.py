"""Which tick of the schedule is due, and when to look again: pure arithmetic with times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.ray.api.rayjob import time_of

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.ray.cronjob.observation import CronJobObservation

_SKEW: Final = timedelta(days=1)
"""A tick further ahead than clocks may differ was never made; what is written of it is wrong."""

_LONGEST_DEADLINE: Final = 100 * 365 * 86400
"""Seconds; a later deadline is as good as none."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Where in its schedule a RayCronJob is.

    Attributes:
        last: the latest tick that a RayJob was made for, None if there was none.
        due: the latest tick without a RayJob, None if there is none that may still be made up for.
            Those before it are skipped.
        missed: the latest tick without a RayJob if its deadline has passed.
        deadline: until when `due` may be made up for, None for ever.
        next: the first tick after now, None if there is none.
    """

    last: datetime | None
    due: datetime | None
    missed: datetime | None
    deadline: datetime | None
    next: datetime | None


def read_timing(seen: CronJobObservation, valid: ValidCronJob, now: datetime) -> Timing:
    """Compare the schedule with what was made."""
    last = _last(seen, now)
    start = last or time_of(seen.cron.metadata.creation_timestamp) or now
    late = valid.schedule.latest(start, now, valid.zone)
    following = valid.schedule.next_after(late or start, valid.zone)
    seconds = valid.spec.starting_deadline_seconds
    deadline = None
    if late is not None and seconds is not None:
        deadline = late + timedelta(seconds=min(seconds, _LONGEST_DEADLINE))
    if deadline is not None and deadline <= now:
        return Timing(last, None, late, None, following)
    return Timing(last, late, None, deadline, following)


def _last(seen: CronJobObservation, now: datetime) -> datetime | None:
    """The status may lag behind the RayJobs, and RayJobs may have been deleted since."""
    noted = time_of(seen.status.get("lastScheduleTime"))
    ticks = [noted, *(run.tick for run in seen.runs)]
    return max((tick for tick in ticks if tick is not None and tick - now <= _SKEW), default=None)
