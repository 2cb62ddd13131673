"""Times of day that others have written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controller.apimachinery.conditions import CLOCK_SKEW, counted_from

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEADY = NOW - timedelta(days=10)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    "start", [NOW - timedelta(days=20), NOW - SECOND, NOW, NOW + SECOND, NOW + CLOCK_SKEW]
)
def test_a_time_that_is_past_or_as_far_ahead_as_clocks_differ_is_believed(start: datetime):
    assert counted_from(start, STEADY, NOW) == start


def test_a_time_that_only_a_clock_that_was_ahead_can_have_written_is_older_than_a_steady_clock():
    ahead = NOW + CLOCK_SKEW + SECOND
    assert counted_from(ahead, STEADY, NOW) == STEADY
    assert counted_from(ahead, NOW + SECOND, NOW) == NOW
    assert counted_from(ahead, None, NOW) == ahead
