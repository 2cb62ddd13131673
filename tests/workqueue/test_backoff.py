from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workqueue.waiting import Backoff, Failures


def failures(backoff: Backoff, *, floor: float = 1.0) -> Failures[str]:
    return Failures(backoff, random.Random(7), floor)


def test_the_default_ladder_starts_at_5_ms_and_ends_at_5_min():
    delays = [Backoff().delay(n) for n in range(20)]
    assert delays[:4] == pytest.approx([0.005, 0.010, 0.020, 0.040])
    assert delays[8] == pytest.approx(1.28)
    assert delays[15] == pytest.approx(163.84)
    assert delays[16:] == [300.0] * 4


@settings(derandomize=True)
@given(st.integers(0, 10**30), st.floats(0, 1e6), st.floats(0, 1e6))
def test_no_number_of_failures_overflows(count, base, cap):
    assert 0 <= Backoff(base, cap).delay(count) <= cap


def test_jitter_stretches_by_less_than_a_fifth_at_the_cap_too():
    keys = failures(Backoff(base=10.0, cap=10.0))
    factors = [keys.record("a", 0.0) / 10.0 for _ in range(1000)]
    assert all(1 <= factor < 1.2 for factor in factors)
    assert min(factors) < 1.01
    assert max(factors) > 1.19


def test_a_key_is_held_back_for_its_delay_but_no_longer_than_the_floor():
    keys = failures(Backoff(base=0.5, jitter=0), floor=1.0)
    assert keys.held_until("a") == -math.inf
    keys.record("a", 100.0)
    assert keys.held_until("a") == 100.5
    keys.record("a", 200.0)
    keys.record("a", 300.0)
    assert keys.held_until("a") == 301.0
    keys.forget("a")
    assert keys.held_until("a") == -math.inf


def test_keys_that_nobody_forgets_take_no_memory_for_ever():
    keys = failures(Backoff(cap=10.0))
    for second in range(1000):
        keys.record(f"key-{second}", float(second))
        assert len(keys) <= 21


def test_a_key_is_remembered_until_twice_the_cap_has_passed():
    keys = failures(Backoff(cap=10.0))
    keys.record("first", 0.0)
    keys.record("second", 20.0)
    assert keys.count("first") == 1
    keys.record("second", 20.5)
    assert keys.count("first") == 0


def test_a_key_that_fails_again_is_not_dropped_for_the_age_of_its_first_failure():
    keys = failures(Backoff(cap=10.0))
    for second in range(0, 100, 15):
        keys.record("steady", float(second))
        keys.record(f"other-{second}", float(second))
    assert keys.count("steady") == 7
