"""The queue against a model: the two sets, written down as plainly as possible.

Hypothesis interleaves adds, delays, failures, getters that come, are cancelled and work, turns of
the event loop and of the clock. Cancellations therefore hit getters in every state, also between
their wake-up and their return. Times are multiples of 1/8 s, so that they can be compared.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.workqueue.fakes import FakeClock
from workqueue import Backoff, Closed, WorkQueue
from workqueue.queue import AGEING
from workqueue.waiting import FLOOR, TURNS_OF_BEGUN

BASE, CAP = 0.75, 4.0  # the first delay is below the floor, the others above

KEYS = st.integers(0, 3)
PRIORITIES = st.none() | st.integers(-3, 3)
SECONDS = st.integers(-8, 40).map(lambda eighths: eighths / 8)


def begun(key: int) -> bool:
    return key < 2


class Model:
    """What must be true. Every dict is by key."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.open = True
        self.dirty: set[int] = set()
        self.processing: dict[int, int] = {}  # priority
        self.due: dict[int, float] = {}
        self.priority: dict[int, int] = {}  # of dirty and delayed keys
        self.rank: dict[int, float] = {}  # of dirty - processing
        self.turns = 0  # of begun work while the rest waited
        self.failures: Counter[int] = Counter()
        self.failed_at: dict[int, float] = {}
        self.held_until: dict[int, float] = {}

    @property
    def order(self) -> set[int]:
        return self.dirty - self.processing.keys()

    def want(self, key: int, delay: float, priority: int | None) -> None:
        if not self.open:
            return
        now = self.clock.now
        if key not in self.priority:
            inherited = self.processing.get(key, 0)
            self.priority[key] = inherited if priority is None else priority
        elif priority is not None and priority > self.priority[key]:
            self.priority[key] = priority
            if key in self.order:
                self.rank[key] = min(self.rank[key], now - priority * AGEING)
        if key in self.dirty:
            return
        when = max(now + delay, self.held_until.get(key, now))
        if when <= now:
            self.due.pop(key, None)
            self.become_dirty(key, now)
        else:
            self.due[key] = min(when, self.due.get(key, when))

    def become_dirty(self, key: int, when: float) -> None:
        self.dirty.add(key)
        if key not in self.processing:
            self.rank[key] = when - self.priority[key] * AGEING

    def fail(self, key: int) -> float:
        for old in [old for old, at in self.failed_at.items() if at < self.clock.now - 2 * CAP]:
            self.forget(old)
        self.failed_at[key] = self.clock.now
        delay = min(BASE * 2 ** self.failures[key], CAP)
        self.failures[key] += 1
        held = self.held_until[key] = self.clock.now + min(delay, FLOOR)
        if self.open and key in self.processing:
            if key in self.dirty:
                self.dirty.remove(key)
                self.due[key] = held
            elif key in self.due:
                self.due[key] = max(self.due[key], held)
        self.want(key, delay, None)
        return delay

    def forget(self, key: int) -> None:
        self.failures.pop(key, None)
        self.failed_at.pop(key, None)
        self.held_until.pop(key, None)

    def hand_out(self, key: int) -> None:
        assert key not in self.processing, "two workers have one key"
        assert key in self.dirty, "handed out, but nobody asked"
        band = self.next_band()
        assert key in band, "it is the turn of the other band"
        assert self.rank[key] == min(map(self.rank.get, band)), "an older or more urgent key waits"
        del self.rank[key]
        self.dirty.remove(key)
        self.processing[key] = self.priority.pop(key)

    def next_band(self) -> set[int]:
        first = {key for key in self.rank if begun(key) and self.priority[key] >= 0}
        rest = self.rank.keys() - first
        if not first or (rest and self.turns == TURNS_OF_BEGUN):
            self.turns = 0
            return rest
        self.turns += bool(rest)
        return first

    def done(self, key: int) -> None:
        del self.processing[key]
        if key in self.dirty:
            self.rank[key] = self.clock.now - self.priority[key] * AGEING

    def tick(self, end: float) -> None:
        for key, when in sorted(self.due.items(), key=lambda item: item[1]):
            if when <= end:
                del self.due[key]
                self.become_dirty(key, when)

    def close(self) -> None:
        self.open = False
        self.due.clear()
        self.dirty.clear()
        self.rank.clear()
        self.priority.clear()


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.model = Model(self.clock)
        self.queue: WorkQueue[int] = WorkQueue(
            clock=self.clock,
            rng=random.Random(0),
            backoff=Backoff(BASE, CAP, jitter=0),
            begun=begun,
        )
        self.getters: list[asyncio.Task[None]] = []

    async def getter(self) -> None:
        try:
            key = await self.queue.get()
        except Closed:
            assert not self.model.open
            assert not self.model.dirty, "released, but a key is still to come"
        else:
            self.model.hand_out(key)
            assert self.queue.priority_of(key) == self.model.processing[key]

    def turn(self) -> None:
        """Let the loop turn once, and hear of what went wrong in it."""
        self.loop.run_until_complete(asyncio.sleep(0))
        for task in self.getters:
            if task.done() and not task.cancelled():
                task.result()
        self.getters = [task for task in self.getters if not task.done()]

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: int, priority: int | None) -> None:
        self.model.want(key, 0, priority)
        self.queue.add(key, priority=priority)

    @rule(key=KEYS, delay=SECONDS, priority=PRIORITIES)
    def add_after(self, key: int, delay: float, priority: int | None) -> None:
        self.model.want(key, delay, priority)
        self.queue.add_after(key, delay, priority=priority)

    @rule(key=KEYS)
    def add_rate_limited(self, key: int) -> None:
        delay = self.model.fail(key)
        assert self.queue.add_rate_limited(key) == delay

    @rule(key=KEYS)
    def forget(self, key: int) -> None:
        self.model.forget(key)
        self.queue.forget(key)

    @rule(count=st.integers(1, 3), asleep=st.booleans())
    def get(self, count: int, asleep: bool) -> None:
        self.getters += [self.loop.create_task(self.getter()) for _ in range(count)]
        if asleep:
            self.turn_until_quiet()

    @precondition(lambda self: self.getters)
    @rule()
    def cancel_the_next(self) -> None:
        """Cancel who sleeps longest: it may just have been woken."""
        self.getters[0].cancel()

    @precondition(lambda self: self.getters)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.getters), "getter").cancel()

    @precondition(lambda self: self.model.processing)
    @rule(data=st.data(), failed=st.booleans())
    def done(self, data: st.DataObject, failed: bool) -> None:
        in_flight = st.sampled_from(sorted(self.model.processing))
        for key in data.draw(st.lists(in_flight, min_size=1, unique=True), "keys"):
            if failed:
                self.add_rate_limited(key)
            self.model.done(key)
            self.queue.done(key)

    @rule()
    def turn_once(self) -> None:
        self.turn()

    @rule()
    def turn_until_quiet(self) -> None:
        for _ in range(len(self.getters) + 4):
            self.turn()
        if self.getters:
            assert len(self.queue) == 0, "a key is ready, a getter sleeps"
            assert self.model.open or self.model.dirty, "a getter waits for what will not come"

    @rule(eighths=st.integers(0, 40))
    def advance(self, eighths: int) -> None:
        self.model.tick(self.clock.now + eighths / 8)
        self.clock.advance(eighths / 8)

    @invariant()
    def order_is_dirty_minus_processing(self) -> None:
        bands = self.queue._order
        assert {*bands._begun._valid, *bands._rest._valid} == self.model.order
        assert len(self.queue) == len(self.model.order)

    @invariant()
    def each_set_is_as_in_the_model(self) -> None:
        assert set(self.queue._dirty) == self.model.dirty
        assert set(self.queue._processing) == set(self.model.processing)
        assert self.queue._priority == self.model.priority
        assert {key: self.queue.num_requeues(key) for key in range(4)} == {
            key: self.model.failures[key] for key in range(4)
        }

    @invariant()
    def each_delay_is_the_earliest_asked_for(self) -> None:
        waiting = {
            key: self.queue._delays.due(key) for key in range(4) if key in self.queue._delays
        }
        assert waiting == self.model.due
        assert len(self.clock.armed) <= 1
        if waiting:
            assert self.clock.armed[0] <= min(waiting.values())
        else:
            assert self.clock.armed == []

    @invariant()
    def depth_counts_dirty_keys_and_is_never_negative(self) -> None:
        depth = self.queue.statistics().dirty
        assert depth == Counter(self.model.priority[key] for key in self.model.dirty)
        assert all(keys > 0 for keys in depth.values())

    def teardown(self) -> None:
        try:
            self.turn_until_quiet()
        finally:
            for task in self.getters:
                task.cancel()
            self.turn()
            self.turn()
            self.loop.close()


class ClosingQueueMachine(QueueMachine):
    """The same, with an end; a machine of its own, for after it little happens.

    So it comes when there is much to be ended: a key in flight that is dirty too.
    """

    @precondition(lambda self: self.model.dirty & self.model.processing.keys())
    @rule()
    def close(self) -> None:
        self.model.close()
        self.queue.close()
        self.turn()
        self.turn()


LIMITS = settings(derandomize=True, deadline=None, max_examples=60, stateful_step_count=60)

TestQueue = QueueMachine.TestCase
TestQueue.settings = LIMITS
TestClosingQueue = ClosingQueueMachine.TestCase
TestClosingQueue.settings = LIMITS
