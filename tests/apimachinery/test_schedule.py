"""Schedules: robfig's grammar, its ticks, its daylight saving, and both against brute force."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.apimachinery.schedule import Crontab, Every, InvalidSchedule, parse_schedule

MINUTE = timedelta(minutes=1)
NEW_YORK = "America/New_York"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def following(text: str, schedule: str, zone: str = "UTC") -> datetime | None:
    return parse_schedule(schedule).next_after(at(text), ZoneInfo(zone))


NEXT = [
    # steps, ranges, names
    ("2012-07-09T14:45Z", "0/15 * * * *", "2012-07-09T15:00Z"),
    ("2012-07-09T14:59:59Z", "0/15 * * * *", "2012-07-09T15:00Z"),
    ("2012-07-09T15:45Z", "20-35/15 * * * *", "2012-07-09T16:20Z"),
    ("2012-07-09T16:20Z", "20-35/15 * * * *", "2012-07-09T16:35Z"),
    ("2012-07-09T23:46Z", "*/15 * * * *", "2012-07-10T00:00Z"),
    ("2012-07-09T23:35:51Z", "20-35/15 1/2 * * *", "2012-07-10T01:20Z"),
    ("2012-07-09T23:35:51Z", "0 */2 1/2 * *", "2012-07-11T00:00Z"),
    ("2012-07-09T23:35Z", "0 0 9 Apr-Oct ?", "2012-08-09T00:00Z"),
    ("2012-07-09T23:35Z", "0 0 */5 Apr,Aug,Oct Mon", "2012-08-01T00:00Z"),
    ("2012-07-09T23:35Z", "0 0 */5 Oct Mon", "2012-10-01T00:00Z"),
    ("2012-07-09T23:35Z", "0 0 * Feb Mon", "2013-02-04T00:00Z"),
    ("2012-07-09T23:35Z", "0 0 * Feb Mon/2", "2013-02-01T00:00Z"),
    ("2012-07-09T23:35Z", "30 8 * * MON-FRI", "2012-07-10T08:30Z"),
    ("2012-07-13T09:00Z", "30 8 * * mon-fri", "2012-07-16T08:30Z"),
    ("2012-07-09T14:45Z", "1,,2, * * * *", "2012-07-09T15:01Z"),
    ("2012-07-09T14:45Z", "+5 * * * *", "2012-07-09T15:05Z"),
    ("2012-07-09T14:45Z", "*-3 * * * *", "2012-07-09T14:46Z"),
    # years, leap years
    ("2012-12-31T23:59:45Z", "0 0 1 1 *", "2013-01-01T00:00Z"),
    ("2012-07-09T23:35Z", "0 0 29 Feb ?", "2016-02-29T00:00Z"),
    ("2096-03-01T00:00Z", "0 0 29 2 *", "2104-02-29T00:00Z"),
    # a month's day or a week's day; with a star both
    ("2012-07-10T00:00Z", "0 0 15 * Sun", "2012-07-15T00:00Z"),
    ("2012-07-16T00:00Z", "0 0 15 * Sun", "2012-07-22T00:00Z"),
    ("2012-07-10T00:00Z", "0 0 13 * Fri", "2012-07-13T00:00Z"),
    ("2012-07-14T00:00Z", "0 0 13 * ?", "2012-08-13T00:00Z"),
    ("2012-07-14T00:00Z", "0 0 ? * Fri", "2012-07-20T00:00Z"),
    ("2012-07-14T00:00Z", "0 0 */1 * Fri", "2012-07-20T00:00Z"),
    ("2012-07-14T00:00Z", "0 0 */2 * Fri", "2012-07-15T00:00Z"),
    ("2012-07-14T00:00Z", "0 0 13,* * Fri", "2012-07-20T00:00Z"),
    # abbreviations
    ("2012-07-09T14:45Z", "@hourly", "2012-07-09T15:00Z"),
    ("2012-07-09T14:45Z", "@daily", "2012-07-10T00:00Z"),
    ("2012-07-09T14:45Z", "@midnight", "2012-07-10T00:00Z"),
    ("2012-07-09T14:45Z", "@weekly", "2012-07-15T00:00Z"),
    ("2012-07-09T14:45Z", "@monthly", "2012-08-01T00:00Z"),
    ("2012-07-09T14:45Z", "@yearly", "2013-01-01T00:00Z"),
    ("2012-07-09T14:45Z", "@annually", "2013-01-01T00:00Z"),
    ("2012-07-09T14:45:10.5Z", "@every 1h30m10s", "2012-07-09T16:15:20Z"),
    # what does not exist
    ("2012-07-09T23:35Z", "0 0 30 Feb ?", None),
    ("2012-07-09T23:35Z", "0 0 31 Apr,Jun ?", None),
]


@pytest.mark.parametrize(("now", "schedule", "tick"), NEXT)
def test_the_next_tick_is_robfigs(now: str, schedule: str, tick: str | None):
    assert following(now, schedule) == (at(tick) if tick else None)


IN_ZONES = [
    # an hour that is left out takes its ticks along
    ("2012-03-11T00:00-05:00", "0 * * * *", NEW_YORK, "2012-03-11T01:00-05:00"),
    ("2012-03-11T01:00-05:00", "0 * * * *", NEW_YORK, "2012-03-11T03:00-04:00"),
    ("2012-03-11T00:00-05:00", "30 2 11 Mar ?", NEW_YORK, "2013-03-11T02:30-04:00"),
    ("2012-03-11T00:00-05:00", "0 2 * * *", NEW_YORK, "2012-03-12T02:00-04:00"),
    ("2012-03-11T00:00-05:00", "0 1 * * *", NEW_YORK, "2012-03-11T01:00-05:00"),
    ("2012-03-11T00:00-05:00", "0 3 * * *", NEW_YORK, "2012-03-11T03:00-04:00"),
    # an hour that comes twice brings its ticks twice
    ("2012-11-04T00:00-04:00", "0 1 * * *", NEW_YORK, "2012-11-04T01:00-04:00"),
    ("2012-11-04T01:00-04:00", "0 1 * * *", NEW_YORK, "2012-11-04T01:00-05:00"),
    ("2012-11-04T01:00-05:00", "0 1 * * *", NEW_YORK, "2012-11-05T01:00-05:00"),
    ("2012-11-04T01:45-04:00", "30 1 04 Nov ?", NEW_YORK, "2012-11-04T01:30-05:00"),
    ("2012-11-04T00:00-04:00", "30 2 04 Nov ?", NEW_YORK, "2012-11-04T02:30-05:00"),
    ("2012-11-04T00:00-04:00", "0 3 * * *", NEW_YORK, "2012-11-04T03:00-05:00"),
    # a midnight that is left out, and one that comes twice
    ("2018-11-03T00:00-03:00", "0 0 * * *", "America/Sao_Paulo", "2018-11-05T00:00-02:00"),
    ("2018-10-17T05:00-04:00", "0 9 10 * ?", "America/Sao_Paulo", "2018-11-10T06:00-05:00"),
    ("2018-02-14T05:00-05:00", "0 9 22 * ?", "America/Sao_Paulo", "2018-02-22T07:00-05:00"),
    ("2018-02-17T23:45-02:00", "30 23 17 2 *", "America/Sao_Paulo", "2018-02-17T23:30-03:00"),
    # clocks that change by half an hour, at one minute past midnight, or leave out a day
    ("2024-10-06T01:00+10:30", "15 2 * * *", "Australia/Lord_Howe", "2024-10-07T02:15+11:00"),
    ("2024-04-07T01:45+11:00", "45 1 * * *", "Australia/Lord_Howe", "2024-04-07T01:45+10:30"),
    ("2010-11-06T23:30-02:30", "30 23 6 11 *", "America/St_Johns", "2010-11-06T23:30-03:30"),
    ("2010-11-06T23:30-02:30", "0 0 7 11 *", "America/St_Johns", "2010-11-07T00:00-02:30"),
    ("2010-11-07T00:00-02:30", "0 0 7 11 *", "America/St_Johns", "2010-11-07T00:00-03:30"),
    ("2011-12-29T12:00-10:00", "0 0 * * *", "Pacific/Apia", "2011-12-31T00:00+14:00"),
    # no change at all
    ("2026-01-01T00:00Z", "0 9 * * *", "Asia/Taipei", "2026-01-01T09:00+08:00"),
    ("2026-01-01T00:00Z", "15 9 * * *", "Asia/Kathmandu", "2026-01-01T09:15+05:45"),
]


@pytest.mark.parametrize(("now", "schedule", "zone", "tick"), IN_ZONES)
def test_clocks_that_change_are_followed_as_robfig_does(
    now: str, schedule: str, zone: str, tick: str
):
    assert following(now, schedule, zone) == at(tick)


def test_backwards_too_a_midnight_that_comes_twice_is_met_on_the_right_side():
    before = at("2010-11-06T12:00-02:30")
    first, second = at("2010-11-06T23:59-02:30"), at("2010-11-06T23:59-03:30")
    schedule, zone = parse_schedule("59 23 6 11 *"), ZoneInfo("America/St_Johns")
    assert schedule.latest(before, first + MINUTE, zone) == first
    assert schedule.latest(before, second - MINUTE, zone) == first
    assert schedule.latest(before, second + MINUTE, zone) == second


WRONG = [
    ("", "is empty"),
    ("   ", "is empty"),
    ("* * * *", "4 fields instead of five"),
    ("* * * * * *", "6 fields instead of five"),
    ("60 * * * *", "minute '60' is not within 0 to 59"),
    ("* 24 * * *", "hour '24'"),
    ("* * 0 * *", "day of month '0' is not within 1 to 31"),
    ("* * 32 * *", "day of month"),
    ("* * * 13 *", "month '13'"),
    ("* * * foo *", "is not a number or one of jan, feb"),
    ("* * * * 7", "day of week '7' is not within 0 to 6"),
    ("* * * * 5#2", "is not a number"),
    ("* * L * *", "day of month 'L' is not a number"),
    ("5-1 * * * *", "begins after its end"),
    ("-5 * * * *", "is not a number"),
    ("1- * * * *", "is not a number"),
    ("1-2-3 * * * *", "is not a number"),
    ("*/0 * * * *", "has a step of 0"),
    ("1/2/3 * * * *", "is not a number"),
    ("*/ * * * *", "is not a number"),
    (", * * * *", "minute ',' is empty"),
    ("1.5 * * * *", "is not a number"),
    ("٣ * * * *", "is not a number"),
    ("9999999999 * * * *", "is not a number"),
    ("TZ=UTC * * * * *", "6 fields"),
    ("@", "there is no '@'; there are @yearly"),
    ("@Daily", "there is no"),
    ("@every", "there is no"),
    ("@every day", "is not a duration such as 90m"),
    ("@every 5", "is not a duration"),
    ("@every 3000000h", "longer than 290 years"),
]


@pytest.mark.parametrize(("schedule", "message"), WRONG)
def test_what_is_wrong_is_told_with_its_field(schedule: str, message: str):
    with pytest.raises(InvalidSchedule) as raised:
        parse_schedule(schedule)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("1h30m", 5400),
        ("1.15h", 4140),
        (".5h", 1800),
        ("100000ms", 100),
        ("+61.9s", 61),
        ("1s", 60),
        ("0", 60),
        ("-5m", 60),
        ("60000000000ns", 60),
    ],
)
def test_an_interval_has_whole_seconds_and_a_minute_at_least(text: str, seconds: int):
    assert parse_schedule(f"@every {text}") == Every(timedelta(seconds=seconds))


def test_of_a_hundred_years_of_missed_ticks_only_the_last_is_worked_out():
    now = at("2026-05-17T10:20:30Z")
    every_minute = parse_schedule("* * * * *")
    assert every_minute.latest(at("1926-01-01T00:00Z"), now, UTC) == at("2026-05-17T10:20Z")
    interval = parse_schedule("@every 70s")
    tick = interval.latest(at("1926-01-01T00:00Z"), now, UTC)
    assert tick is not None
    assert tick <= now < tick + timedelta(seconds=70)
    assert (tick - at("1926-01-01T00:00Z")) % timedelta(seconds=70) == timedelta(0)


def test_a_tick_is_missed_once_it_has_come_and_not_before():
    noon = parse_schedule("0 12 * * *")
    day = at("2026-05-17T12:00Z")
    assert noon.latest(day - MINUTE, day - timedelta(microseconds=1), UTC) is None
    assert noon.latest(day - MINUTE, day, UTC) == day
    assert noon.latest(day, day + timedelta(hours=23), UTC) is None
    assert parse_schedule("0 0 30 2 *").latest(at("1990-01-01T00:00Z"), day, UTC) is None


def test_an_interval_that_leads_beyond_the_calendar_ends():
    century = parse_schedule("@every 2000000h")
    assert century.next_after(datetime(9998, 1, 1, tzinfo=UTC), UTC) is None


ZONES = [
    NEW_YORK,
    "UTC",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Kathmandu",
]
CHANGES = [
    "2012-03-11T07:00Z",  # New York forward
    "2012-11-04T06:00Z",  # New York back
    "2024-10-05T15:30Z",  # Lord Howe forward
    "2024-04-06T15:00Z",  # Lord Howe back
    "2010-11-07T02:31Z",  # St John's back, one minute after midnight
    "2010-03-14T03:31Z",  # St John's forward
    "2018-11-04T03:00Z",  # Sao Paulo forward, at midnight
    "2018-02-18T02:00Z",  # Sao Paulo back, at midnight
    "2011-12-30T10:00Z",  # Apia leaves out a day
    "2024-03-10T02:00Z",  # Casablanca for Ramadan
    "2024-02-29T00:00Z",
    "2023-12-31T23:59Z",
]


def fields(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    ordered = st.tuples(number, number).map(sorted)
    step = st.integers(1, most)
    part = st.one_of(
        st.just("*"),
        number.map(str),
        ordered.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        step.map(lambda each: f"*/{each}"),
        st.tuples(ordered, step).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
    )
    return st.lists(part, min_size=1, max_size=3).map(",".join)


CRONTABS = st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12), fields(0, 6)).map(
    " ".join
)
MOMENTS = st.one_of(
    st.builds(
        lambda change, seconds: at(change) + timedelta(seconds=seconds),
        st.sampled_from(CHANGES),
        st.integers(-90000, 90000),
    ),
    st.integers(0, 4_000_000_000).map(lambda stamp: datetime.fromtimestamp(stamp, UTC)),
)


def matches(crontab: Crontab, moment: datetime, zone: ZoneInfo) -> bool:
    """Whether the clocks of the zone show a time that the fields name; the definition of a tick."""
    local = moment.astimezone(zone)
    shown = 60 * local.hour + local.minute
    return shown in crontab.moments and crontab.matches_day(local.date())


@settings(max_examples=150, deadline=None)
@given(CRONTABS, MOMENTS, st.sampled_from(ZONES).map(ZoneInfo))
def test_nothing_between_two_ticks_matches(text: str, moment: datetime, zone: ZoneInfo):
    crontab = Crontab.parse(text)
    tick = crontab.next_after(moment, zone)
    floor = moment.replace(second=0, microsecond=0)
    until = floor + timedelta(days=3)
    if tick is not None:
        assert tick > moment
        assert matches(crontab, tick, zone)
        assert crontab.latest(moment, tick, zone) == tick
        assert crontab.latest(moment, tick - MINUTE, zone) is None
        until = min(until, tick)
    minute = floor + MINUTE
    while minute < until:
        assert not matches(crontab, minute, zone), minute
        minute += MINUTE


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(CRONTABS, MOMENTS, st.sampled_from(ZONES).map(ZoneInfo))
def test_the_latest_tick_is_the_last_that_matches(text: str, moment: datetime, zone: ZoneInfo):
    crontab = Crontab.parse(text)
    after = moment - timedelta(days=3)
    minute = moment.replace(second=0, microsecond=0)
    while minute > after and not matches(crontab, minute, zone):
        minute -= MINUTE
    wanted = minute if minute > after else None
    assert crontab.latest(after, moment, zone) == wanted
