"""When a series is sent."""

from __future__ import annotations

import pytest

from controller.runtime.event_series import REFRESH, SILENCE, EventSeries


@pytest.mark.parametrize(
    ("sent", "now", "due"),
    [
        (0, 100.0, True),
        (1, 100.0, True),
        (2, 100.0, False),
        (2, 49.0 + REFRESH, False),
        (2, 50.0 + REFRESH, True),
        (4, 50.0 + REFRESH, False),
    ],
)
def test_two_occurrences_are_due_at_once_and_more_half_hourly(sent: int, now: float, due: bool):
    series = EventSeries("ns", "p", {}, last_seen=2000.0, last_time="", count=4)
    series.sent, series.sent_at = sent, 50.0
    assert series.is_due(now) is due


@pytest.mark.parametrize(("since", "due"), [(-1.0, False), (0.0, True), (1.0, True)])
def test_the_last_occurrences_are_due_when_the_series_is_over(since: float, due: bool):
    series = EventSeries("ns", "p", {}, last_seen=100.0, last_time="", count=4)
    series.sent, series.sent_at = 3, 50.0
    assert series.is_due(100.0 + SILENCE + since) is due
