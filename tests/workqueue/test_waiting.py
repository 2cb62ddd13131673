"""The parts of the queue that wait: heap, bands, delays and failures, where no model looks."""

from __future__ import annotations

import random

import pytest

from tests.workqueue.fakes import FakeClock
from workqueue.waiting import Backoff, Bands, DelayQueue, Failures, KeyHeap


def test_a_key_that_is_moved_for_ever_takes_no_more_memory():
    heap: KeyHeap[str] = KeyHeap()
    for rank in range(10_000):
        heap.push("restless", rank)
        heap.push("far away", 1_000_000 - rank)
        heap.discard("far away")
        assert len(heap._heap) <= 2 * len(heap) + 64


def test_a_heap_is_rebuilt_when_more_than_half_of_it_and_some_more_entries_are_outdated():
    heap: KeyHeap[int] = KeyHeap()
    for key in range(100):
        heap.push(key, 0)
    sizes: list[int] = []
    for rank in range(200):
        heap.push(99, rank)
        sizes.append(len(heap._heap))
    assert max(sizes) == 2 * 100 + 64
    assert sizes[sizes.index(max(sizes)) + 1] == 100


def test_the_order_outlives_rebuilds():
    heap: KeyHeap[int] = KeyHeap()
    rng = random.Random(1)
    ranks: dict[int, float] = {}
    for _ in range(5_000):
        key = rng.randrange(200)
        ranks[key] = rng.random()
        heap.push(key, ranks[key])
        assert heap.lowest() == min(ranks.values())
    assert [heap.pop() for _ in range(len(heap))] == sorted(ranks, key=ranks.__getitem__)


def filled(begun: str, rest: str) -> Bands[str]:
    bands: Bands[str] = Bands()
    for rank, key in enumerate(begun):
        bands.push(key, rank, begun=True)
    for rank, key in enumerate(rest):
        bands.push(key, rank, begun=False)
    return bands


def order(bands: Bands[str]) -> str:
    return "".join(bands.pop() for _ in range(len(bands)))


def test_begun_work_comes_first_and_each_fourth_turn_belongs_to_the_rest():
    assert order(filled("ABCDEFGH", "abcde")) == "ABCaDEFbGHcde"


class Releases:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.seen: list[tuple[str, float]] = []

    def __call__(self, key: str, due: float) -> None:
        self.seen.append((key, due))


def make(early: float = 0.0) -> tuple[FakeClock, Releases, DelayQueue[str]]:
    clock = FakeClock(early)
    releases = Releases(clock)
    return clock, releases, DelayQueue(clock, releases)


def test_a_discarded_key_is_not_released_and_the_last_one_takes_the_timer_along():
    clock, releases, delays = make()
    delays.set("a", 1001.0)
    delays.set("b", 1002.0)
    delays.discard("a")
    delays.discard("never here")
    assert clock.armed == [1001.0]
    clock.advance(1.5)
    assert releases.seen == []
    assert clock.armed == [1002.0]
    delays.discard("b")
    assert clock.armed == []


def test_a_timer_is_never_far_away():
    clock, releases, delays = make()
    delays.set("in ten days", 1000.0 + 240 * 3600)
    for _ in range(240):
        [armed] = clock.armed
        assert armed <= clock.now + 3600
        assert releases.seen == []
        clock.advance(3600)
    assert [key for key, _ in releases.seen] == ["in ten days"]


def test_a_clock_that_calls_a_tick_early_does_not_make_a_busy_loop():
    clock, releases, delays = make(early=1e-6)
    delays.set("a", 1001.0)
    clock.advance(2)
    assert releases.seen == [("a", 1001.0)]
    assert len(clock.timers) == 1


def failures(backoff: Backoff) -> Failures[str]:
    return Failures(backoff, random.Random(7))


def test_the_default_ladder_starts_at_5_ms_and_ends_at_5_min():
    delays = [Backoff().delay(n) for n in range(20)]
    assert delays[:4] == pytest.approx([0.005, 0.010, 0.020, 0.040])
    assert delays[8] == pytest.approx(1.28)
    assert delays[15] == pytest.approx(163.84)
    assert delays[16:] == [300.0] * 4


def test_keys_that_nobody_forgets_take_no_memory_for_ever():
    keys = failures(Backoff(cap=10.0))
    for second in range(1000):
        keys.record(f"key-{second}", float(second))
        assert len(keys) <= 21
