"""`spec.schedule` of a RayCronJob: a crontab, one of its abbreviations, or a fixed interval."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from controller.ray.api.crontab import MINUTE, Crontab, InvalidSchedule

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
_UNITS: Final = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART: Final = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION: Final = re.compile(rf"[+-]?(?:{_PART})+")
_LONGEST: Final = 290 * 365 * 86400
"""Seconds; Go's durations end at 292 years."""


@dataclass(frozen=True, slots=True)
class Every:
    """Ticks at a fixed interval.

    Attributes:
        interval: whole seconds, at least a minute, because jobs are named by the minute.
    """

    interval: timedelta

    def next_after(self, moment: datetime, zone: tzinfo) -> datetime | None:  # noqa: ARG002
        """One interval after `moment`, which must be a tick or the start; None after year 9999."""
        try:
            return moment.astimezone(UTC).replace(microsecond=0) + self.interval
        except OverflowError:
            return None

    def latest(self, after: datetime, until: datetime, zone: tzinfo) -> datetime | None:  # noqa: ARG002
        """The last tick not later than `until`, counted from `after`, or None."""
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
        seconds = int(_duration(text.removeprefix(_EVERY)))
        return Every(max(MINUTE, timedelta(seconds=seconds)))
    if text.startswith("@"):
        crontab = _DESCRIPTORS.get(text)
        if crontab is None:
            known = ", ".join([*_DESCRIPTORS, "@every DURATION"])
            raise InvalidSchedule(f"there is no {text!r}; there are {known}")
        return Crontab.parse(crontab)
    return Crontab.parse(text)


def _duration(text: str) -> Decimal:
    """Parse a duration in Go's syntax (`1h30m`, `0`) to seconds."""
    if text in {"0", "+0", "-0"}:
        return Decimal(0)
    if _DURATION.fullmatch(text) is None:
        raise InvalidSchedule(f"{text!r} is not a duration such as 90m or 1h30m")
    parts = [Decimal(number) * _UNITS[unit] for number, unit in re.findall(_PART, text)]
    seconds = sum(parts, start=Decimal(0))
    if seconds > _LONGEST:
        raise InvalidSchedule(f"{text!r} is longer than 290 years")
    return -seconds if text.startswith("-") else seconds
