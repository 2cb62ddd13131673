"""A bucket of tokens for each object and type."""

from __future__ import annotations

from controller.runtime import event_series as series
from controller.runtime.event_series import BURST, REFILL, RESERVED, SpamFilter


def passed(spam: SpamFilter, count: int, now: float, regarding: str = "a") -> int:
    return sum(spam.passes(regarding, "Normal", now) for _ in range(count))


def test_the_last_events_are_kept_for_what_happens_to_the_object_as_a_whole() -> None:
    spam = SpamFilter()
    many = [spam.passes("a", "Normal", 1000.0, one_of_many=True) for _ in range(BURST)]
    assert sum(many) == BURST - RESERVED
    assert passed(spam, BURST, 1000.0) == RESERVED


def test_a_burst_passes_and_then_one_each_five_minutes():
    spam = SpamFilter()
    assert passed(spam, BURST + 5, 1000.0) == BURST
    assert passed(spam, 5, 1000.0 + REFILL - 1) == 0
    assert passed(spam, 5, 1000.0 + REFILL) == 1
    assert passed(spam, 5, 1000.0 + 2.5 * REFILL) == 1
    assert passed(spam, 5, 1000.0 + 3 * REFILL) == 1, "halves add up"


def test_a_long_silence_fills_no_more_than_a_burst():
    spam = SpamFilter()
    passed(spam, BURST, 0.0)
    assert passed(spam, 2 * BURST, 1000 * REFILL) == BURST


def test_the_bucket_used_longest_ago_is_discarded(monkeypatch):
    monkeypatch.setattr(series, "CAPACITY", 2)
    spam = SpamFilter()
    for regarding in ("a", "b", "a", "c"):
        passed(spam, BURST, 0.0, regarding)
    assert passed(spam, 1, 0.0, "a") == 0
    assert passed(spam, 1, 0.0, "c") == 0
    assert passed(spam, 1, 0.0, "b") == 1, "forgotten, so full again"
