"""`spec.schedule` of a RayCronJob: a crontab, one of its abbreviations, or a fixed interval."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from controller.ray.api.fields.crontab import MINUTE, Crontab, InvalidSchedule
from controller.ray.api.fields.go_duration import InvalidDuration, read_duration

if TYPE_CHECKING:
    from datetime import tzinfo

_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "


@dataclass(frozen=True, slots=True)
class Every:
    """Ticks at a fixed interval.

    Attributes:
        interval: whole seconds, at least a minute, because jobs are named by the minute.
    """

    interval: timedelta

    def next_after(self, moment: datetime, zone: tzinfo) -> datetime | None:  # noqa: ARG002
        """Return `moment`, a tick or the start, plus one interval; None after year 9999."""
        try:
            return moment.astimezone(UTC).replace(microsecond=0) + self.interval
        except OverflowError:
            return None

    def latest(self, after: datetime, until: datetime, zone: tzinfo) -> datetime | None:  # noqa: ARG002
        """Return the last tick not later than `until`, counted from `after`, or None."""
        start = after.astimezone(UTC).replace(microsecond=0)
        count = (until - start) // self.interval
        return start + count * self.interval if count > 0 else None


Schedule: TypeAlias = Crontab | Every


@lru_cache(maxsize=1024)
def parse_schedule(text: str) -> Schedule:
    """Parse a schedule as robfig's `ParseStandard` does, but without a time zone.

    Raises:
        InvalidSchedule: see its message.
    """
    text = text.strip()
    if not text:
        raise InvalidSchedule("is empty")
    if text.startswith(_EVERY):
        return Every(max(MINUTE, timedelta(seconds=_interval(text.removeprefix(_EVERY)))))
    if text.startswith("@"):
        crontab = _DESCRIPTORS.get(text)
        if crontab is None:
            known = ", ".join([*_DESCRIPTORS, "@every DURATION"])
            raise InvalidSchedule(f"there is no {text!r}; there are {known}")
        return Crontab.parse(crontab)
    return Crontab.parse(text)


def _interval(text: str) -> int:
    try:
        return int(read_duration(text))
    except InvalidDuration as error:
        raise InvalidSchedule(str(error)) from error
