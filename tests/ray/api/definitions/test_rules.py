"""The rules of the definitions, without a server: each agrees with what the operator validates."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from controller.apimachinery.schedule import (
    LONGEST_SCHEDULE,
    InvalidSchedule,
    parse_schedule,
    schedule_pattern,
)

PATTERN = re.compile(schedule_pattern())
PART = st.one_of(
    st.sampled_from(
        ["*", "?", "*-9", "0", "1", "7", "23", "24", "31", "32", "59", "60", "007", "+5"]
    ),
    st.sampled_from(["mon", "SUN", "jAn", "feb-apr", "10-2", "1-5", "*/5", "?/2", "1/2", "3-9/3"]),
    st.text("0123456789*?-/,+monJA", min_size=1, max_size=5),
)
FIELD = st.lists(PART, min_size=1, max_size=3).map(",".join)
TEXT = st.lists(FIELD, min_size=4, max_size=6).flatmap(
    lambda fields: st.sampled_from([" ", "  ", "\t"]).map(lambda space: space.join(fields))
)


def is_crontab(text: str) -> bool:
    try:
        parse_schedule(text)
    except InvalidSchedule:
        return False
    return True


@given(TEXT)
@example("*/5,3 0-23/2 ? JAN-mar,12 sun-5")
@example(",5,, 00 +7 012 *-x/1")
def test_every_crontab_that_the_operator_reads_passes_the_rule(text: str):
    assert PATTERN.search(text) or not is_crontab(text)


def test_what_people_mistype_does_not_pass():
    for text in ("61 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "* * * *"):
        assert not PATTERN.search(text), text
        assert not is_crontab(text), text


def test_the_longest_crontab_that_says_anything_is_short_enough():
    ranges = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    fields = (",".join(map(str, range(first, last + 1))) for first, last in ranges)
    assert len(" ".join(fields)) < LONGEST_SCHEDULE / 2
