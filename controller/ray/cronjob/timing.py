"""The ticks of a schedule: the one that is due, and the next one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import time_of

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.ray.cronjob.observation import CronJobObservation

_SKEW: Final = timedelta(minutes=10)
"""Difference that the clocks of two operators may have.

Ticks in the future by no more than this count. A later one comes from a clock that ran ahead, and
must not hold back the ticks until then.
"""

_JUMP: Final = timedelta(days=1)
"""A tick further in the future does not come from a clock and is ignored."""

_LONGEST_DEADLINE: Final = 100 * 365 * 86400
"""Maximum deadline in seconds; longer ones are cut to this."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The ticks of a schedule around the present.

    Attributes:
        last: the latest tick with a RayJob; None if there is none.
        due: the latest tick without a RayJob, if its starting deadline has not passed; earlier
            ones are skipped.
        missed: the latest tick without a RayJob, if its starting deadline has passed.
        deadline: starting deadline of `due`; None for no limit.
        next: the first tick after now; None if there is none.
    """

    last: datetime | None
    due: datetime | None
    missed: datetime | None
    deadline: datetime | None
    next: datetime | None


def read_timing(seen: CronJobObservation, valid: ValidCronJob, now: datetime) -> Timing:
    """Compare the schedule with the existing RayJobs."""
    last = _last(seen, valid, now)
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


def unrecorded_ticks(seen: CronJobObservation, now: datetime) -> frozenset[datetime]:
    """Return the ticks that could be served again if their RayJobs were deleted now.

    The status names neither them nor a later one. Where it cannot be written for long, the latest
    that is older than a day counts for those before it: no clock goes back by more.
    """
    noted = time_of(seen.status.get("lastScheduleTime"))
    if noted is not None and noted - now > _JUMP:
        noted = None
    present = (run.tick for run in seen.runs if not run.job.metadata.terminating)
    served = (tick for tick in present if tick is not None and tick - now <= _SKEW)
    ticks = frozenset(tick for tick in served if noted is None or tick > noted)
    old = max((tick for tick in ticks if now - tick >= _JUMP), default=None)
    return frozenset(tick for tick in ticks if old is None or tick >= old)


def _last(seen: CronJobObservation, valid: ValidCronJob, now: datetime) -> datetime | None:
    """Return the latest tick of status and RayJobs: the status may lag, RayJobs may be deleted.

    If the status names a tick of a clock that ran ahead, all ticks up to now count as served, so
    that none is served twice, and the status is set back to the latest of them.
    """
    noted = time_of(seen.status.get("lastScheduleTime"))
    ticks = [noted, *(run.tick for run in seen.runs)]
    last = max((tick for tick in ticks if tick is not None and tick - now <= _SKEW), default=None)
    if noted is None or not _SKEW < noted - now <= _JUMP:
        return last
    start = last or time_of(seen.cron.metadata.creation_timestamp) or now
    return valid.schedule.latest(start, now, valid.zone) or last
