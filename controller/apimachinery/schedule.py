"""Times in fields: schedules as robfig/cron reads them, and durations of Go."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

# Parses crontabs and finds their next or last tick in a time zone.
#
# Grammar and corner cases follow robfig/cron v3, which KubeRay and Kaito use. A tick is a minute
# whose local time matches. A local time that daylight saving skips has no tick, and one that it
# repeats has two.

Direction = Literal[1, -1]

MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)
_MINUTES_OF_DAY: Final = 24 * 60
_REACH: Final = timedelta(days=9 * 366)
"""Time to search, longer than the longest gap: 29 February recurs within eight years."""

_NUMBER: Final = re.compile(r"\+?[0-9]+")


class InvalidSchedule(ValueError):  # noqa: N818  says what it is
    """The text is not a schedule; the message names the invalid part and the error."""


class _Bounds(Struct, frozen=True):
    """The valid values of one field; `digits` matches its numbers."""

    name: str
    least: int
    most: int
    digits: str = ""
    words: Mapping[str, int] = field(default_factory=dict[str, int])


def _numbered(words: str, start: int) -> dict[str, int]:
    return {word: number for number, word in enumerate(words.split(), start)}


_FIELDS: Final = (
    _Bounds("minute", 0, 59, "[0-5]?[0-9]"),
    _Bounds("hour", 0, 23, "1?[0-9]|2[0-3]"),
    _Bounds("day of month", 1, 31, "[1-9]|[12][0-9]|3[01]"),
    _Bounds(
        "month",
        1,
        12,
        "[1-9]|1[0-2]",
        _numbered("jan feb mar apr may jun jul aug sep oct nov dec", 1),
    ),
    _Bounds("day of week", 0, 6, "[0-6]", _numbered("sun mon tue wed thu fri sat", 0)),
)


LONGEST_SCHEDULE: Final = 1024
"""Characters, far more than a crontab needs that names every minute, hour and day."""


def schedule_pattern() -> str:
    """Return a regular expression that every crontab matches, and most typing errors do not.

    It judges the numbers and words of a crontab; `parse_schedule` judges their order and steps too.
    """
    space = r"[\s]"
    return f"^{space}*{f'{space}+'.join(map(_pattern, _FIELDS))}{space}*$"


def _pattern(bounds: _Bounds) -> str:
    words = ["".join(f"[{each}{each.upper()}]" for each in word) for word in bounds.words]
    value = "|".join((f"[+]?0*({bounds.digits})", *words))
    one = rf"([*?][^,/\s]*|({value})(-({value}))?)(/[^,\s]*)?"
    return f",*{one}(,+{one})*,*"


class Crontab(Struct, frozen=True):
    """The fields of a crontab.

    Attributes:
        moments: matching minutes of a day, from 0 to 1439, ascending.
        weekdays: matching days of a week, 0 being Sunday.
        either: whether a day matches if it is in `days` or in `weekdays`; if one of the two fields
            has a star, it must be in both.
    """

    moments: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    @classmethod
    def parse(cls, text: str) -> Crontab:
        """Parse `minute hour day-of-month month day-of-week`.

        Raises:
            InvalidSchedule: see its message.
        """
        parts = text.split()
        if len(parts) != len(_FIELDS):
            raise InvalidSchedule(
                f"{text!r} has {len(parts)} fields instead of five: minute, hour, day of month, "
                "month, day of week"
            )
        sets = [_parse_field(part, bounds) for part, bounds in zip(parts, _FIELDS, strict=True)]
        (minutes, _), (hours, _), (days, star), (months, _), (weekdays, other_star) = sets
        moments = sorted(60 * hour + minute for hour in hours for minute in minutes)
        return cls(tuple(moments), days, months, weekdays, either=not (star or other_star))

    def next_after(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """Return the first tick later than `moment`, UTC; None if no such date exists."""
        return self._search(_floor(moment) + MINUTE, zone, 1)

    def latest(self, after: datetime, until: datetime, zone: tzinfo) -> datetime | None:
        """Return the last tick later than `after` and not later than `until`, UTC, or None."""
        tick = self._search(_floor(until), zone, -1)
        return tick if tick is not None and tick > after else None

    def matches_day(self, day: date) -> bool:
        """Return whether there may be ticks on this local date."""
        in_month = day.day in self.days
        in_week = day.isoweekday() % 7 in self.weekdays
        fits = in_month or in_week if self.either else in_month and in_week
        return fits and day.month in self.months

    def _search(self, start: datetime, zone: tzinfo, direction: Direction) -> datetime | None:
        """Return the nearest tick from `start` on, inclusive."""
        moment, end = start, start.date() + direction * _REACH
        while True:
            local = moment.astimezone(zone)
            day = self._nearest_day(local.date(), end, direction)
            if day is None:
                return None
            shown = 60 * local.hour + local.minute
            if day == local.date():
                distance = self._distance(shown, direction)
                if distance == 0:
                    return moment
                moment = _move(moment, distance, zone, direction)
            elif _clocks_change(moment, direction * _DAY, zone):  # maybe back to the day before
                rest = _MINUTES_OF_DAY - shown if direction == 1 else shown + 1
                moment = _move(moment, rest, zone, direction)
            else:
                moment = _begin(day, moment, zone, direction)

    def _nearest_day(self, day: date, end: date, direction: Direction) -> date | None:
        """Return the first matching date from `day` on, None if there is none up to `end`."""
        while not self.matches_day(day):
            if direction * (day - end).days > 0:
                return None
            day += timedelta(days=direction)
        return day

    def _distance(self, present: int, direction: Direction) -> int:
        """Return the minutes of local time to the nearest matching minute or the end of the day."""
        if direction == 1:
            position = bisect_left(self.moments, present)
            found = self.moments[position] if position < len(self.moments) else _MINUTES_OF_DAY
            return found - present
        position = bisect_right(self.moments, present) - 1
        return present - (self.moments[position] if position >= 0 else -1)


def _parse_field(text: str, bounds: _Bounds) -> tuple[frozenset[int], bool]:
    """Return the numbers of one field, and whether it contains a star."""
    numbers: set[int] = set()
    has_star = False
    ranges = [part for part in text.split(",") if part]
    if not ranges:
        raise InvalidSchedule(f"{bounds.name} {text!r} is empty")
    for part in ranges:
        found, is_star = _parse_range(part, bounds)
        numbers.update(found)
        has_star = has_star or is_star
    return frozenset(numbers), has_star


def _parse_range(text: str, bounds: _Bounds) -> tuple[range, bool]:
    """Parse `5`, `1-5`, `*` or `?`, with or without `/step`; `*/2` does not count as a star."""

    def wrong(what: str) -> InvalidSchedule:
        return InvalidSchedule(f"{bounds.name} {text!r} {what}")

    limits, slash, step_text = text.partition("/")
    low, dash, high = limits.partition("-")
    is_star = low in {"*", "?"}
    if is_star:
        first, last = bounds.least, bounds.most
    else:
        first = _number(low, bounds)
        last = _number(high, bounds) if dash else first
    step = 1
    if slash:
        step = _number(step_text, _Bounds(f"step of {bounds.name}", 1, bounds.most))
        if not dash:
            last = bounds.most
    if first < bounds.least or last > bounds.most:
        raise wrong(f"is not within {bounds.least} to {bounds.most}")
    if first > last:
        raise wrong("begins after its end")
    if step == 0:
        raise wrong("has a step of 0; it must be 1 or more")
    return range(first, last + 1, step), is_star and step == 1


def _number(text: str, bounds: _Bounds) -> int:
    named = bounds.words.get(text.lower())
    if named is not None:
        return named
    if _NUMBER.fullmatch(text) is None or len(text) > 9:
        words = f" or one of {', '.join(bounds.words)}" if bounds.words else ""
        raise InvalidSchedule(f"{bounds.name} {text!r} is not a number{words}")
    return int(text)


def _floor(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def _begin(day: date, moment: datetime, zone: tzinfo, direction: Direction) -> datetime:
    """Return the first minute of a date in this direction from `moment`, or a minute before it.

    A midnight that occurs twice may lie on both sides of `moment`.
    """
    wall = datetime.combine(day, time(0, 0) if direction == 1 else time(23, 59))
    both = [wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
    ahead = [minute for minute in both if direction * (minute - moment) > timedelta(0)]
    return min(ahead) if direction == 1 else max(ahead)


def _move(moment: datetime, minutes: int, zone: tzinfo, direction: Direction) -> datetime:
    """Advance by `minutes`, or by fewer if the UTC offset changes on the way."""
    while minutes > 1 and _clocks_change(moment, direction * minutes * MINUTE, zone):
        minutes //= 2
    return moment + direction * minutes * MINUTE


def _clocks_change(moment: datetime, distance: timedelta, zone: tzinfo) -> bool:
    """Return whether the UTC offset differs after `distance`, which is at most a day."""
    offset = moment.astimezone(zone).utcoffset()
    return (moment + distance).astimezone(zone).utcoffset() != offset


# Durations in Go's syntax: `1h30m`, `500ms`, `0`.

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
"""Maximum duration in seconds: Go's durations end at 292 years."""


class InvalidDuration(ValueError):  # noqa: N818
    """The text is not a duration. The message is a sentence about it."""


def read_duration(text: str) -> Decimal:
    """Parse a duration to seconds.

    Raises:
        InvalidDuration: the text has another syntax, or the duration is too long for Go.
    """
    if text in {"0", "+0", "-0"}:
        return Decimal(0)
    if _DURATION.fullmatch(text) is None:
        raise InvalidDuration(f"{text!r} is not a duration such as 90m or 1h30m")
    parts = [Decimal(number) * _UNITS[unit] for number, unit in re.findall(_PART, text)]
    seconds = sum(parts, start=Decimal(0))
    if seconds > _LONGEST:
        raise InvalidDuration(f"{text!r} is longer than 290 years")
    return -seconds if text.startswith("-") else seconds


# A schedule: a crontab, one of its abbreviations, or a fixed interval.

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


class Every(Struct, frozen=True):
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
