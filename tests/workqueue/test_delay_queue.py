from __future__ import annotations

from tests.workqueue.fakes import FakeClock
from workqueue.waiting import DelayQueue


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


def test_many_keys_have_one_timer_and_it_is_that_of_the_earliest():
    clock, _, delays = make()
    for number in range(100):
        delays.set(f"key-{number}", 1100.0 - number)
        assert clock.armed == [1100.0 - number]


def test_keys_with_later_times_cost_no_timer():
    clock, _, delays = make()
    for number in range(100):
        delays.set(f"key-{number}", 1001.0 + number)
    assert len(clock.timers) == 1


def test_keys_are_released_at_their_times_in_order():
    clock, releases, delays = make()
    delays.set("late", 1003.0)
    delays.set("early", 1001.0)
    delays.set("middle", 1002.0)
    clock.advance(0.999)
    assert releases.seen == []
    clock.advance(1.001)
    assert releases.seen == [("early", 1001.0), ("middle", 1002.0)]
    clock.advance(10)
    assert releases.seen[2:] == [("late", 1003.0)]
    assert clock.armed == []


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


def test_clearing_leaves_no_timer():
    clock, releases, delays = make()
    delays.set("a", 1001.0)
    delays.clear()
    assert clock.armed == []
    assert len(delays) == 0
    delays.set("b", 1002.0)
    clock.advance(5)
    assert releases.seen == [("b", 1002.0)]
