"""Questions that are asked in the background, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from controller.kaito.lookups.background import (
    BackgroundLookups,
    LookupFailed,
    LookupLimits,
    Unanswered,
)

LIMITS = LookupLimits(concurrency=4, deadline=30, first_pause=10, longest_pause=100, remembered=5)
DOWN = LookupFailed("Down", "it is down")


class Asked:
    """Answers each question with itself in capitals, after a second; or as `of` says.

    Attributes:
        asked: the questions, and when they were asked.
        most: the most that were asked at a time.
        woken: the keys, and when they were woken.
    """

    def __init__(self, limits: LookupLimits = LIMITS) -> None:
        self.asked: list[tuple[str, float]] = []
        self.woken: list[tuple[str, float]] = []
        self.most = 0
        self.of: Callable[[str], Exception | float | None] = lambda _question: None
        self._now = 0
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.lookups = BackgroundLookups(self._ask, self._loop, limits)
        self.lookups.start(lambda key: self.woken.append((key, self.now)))

    @property
    def now(self) -> float:
        return round(self._loop.time() - self._began)

    @property
    def times(self) -> list[float]:
        return [when for _, when in self.asked]

    async def _ask(self, question: str) -> str:
        self.asked.append((question, self.now))
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            found = self.of(question)
            await asyncio.sleep(found if isinstance(found, (int, float)) else 1)
        finally:
            self._now -= 1
        if isinstance(found, Exception):
            raise found
        return question.upper()


@pytest.fixture
async def it() -> AsyncIterator[Asked]:
    asked = Asked()
    yield asked
    await asked.lookups.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_failure_is_asked_again_with_growing_pauses_and_wakes_only_once(it: Asked):
    it.of = lambda _question: DOWN
    it.lookups.sync("a", ["q"])
    await asyncio.sleep(400)
    assert it.times == [0, 11, 32, 73, 154, 255, 356]
    assert it.lookups.state("q") == Unanswered("Down", "it is down")
    assert it.woken == [("a", 1)]


async def test_who_comes_after_a_failure_waits_for_the_end_of_the_pause(it: Asked):
    it.of = lambda _question: DOWN
    it.lookups.sync("a", ["q"])
    await asyncio.sleep(3)
    it.lookups.sync("a", [])
    for _ in range(5):
        it.lookups.sync("b", ["q"])
        it.lookups.sync("b", [])
    it.lookups.sync("c", ["q"])
    assert it.lookups.state("q") == Unanswered("Down", "it is down")
    await asyncio.sleep(20)
    assert it.times == [0, 11]


async def test_an_answer_that_never_comes_is_given_up_at_the_deadline(it: Asked):
    it.of = lambda _question: 1e9
    it.lookups.sync("a", ["q"])
    await asyncio.sleep(31)
    found = it.lookups.state("q")
    assert found == Unanswered("LookupTimeout", "there was no answer within 30 s")
    assert it.woken == [("a", 30)]


async def test_who_asks_to_be_left_alone_is_left_alone_but_not_for_ever(it: Asked):
    it.of = lambda _question: LookupFailed("Busy", "busy", retry_after=50)
    it.lookups.sync("a", ["q"])
    await asyncio.sleep(60)
    assert it.times == [0, 51]
    it.of = lambda _question: LookupFailed("Busy", "busy", retry_after=1e9)
    await asyncio.sleep(300)
    assert it.times[-1] - it.times[-2] == 101


async def test_a_fault_of_ours_is_a_failure_too(it: Asked):
    it.of = lambda _question: ZeroDivisionError("token hf_secret")
    it.lookups.sync("a", ["q"])
    await asyncio.sleep(2)
    assert it.lookups.state("q") == Unanswered("LookupError", "internal error: ZeroDivisionError")


async def test_those_that_never_answer_do_not_hold_up_a_new_question(it: Asked):
    it.of = lambda question: 1e9 if question.startswith("dead") else None
    it.lookups.sync("a", [f"dead{number}" for number in range(40)])
    await asyncio.sleep(1000)
    began = it.now
    it.lookups.sync("b", ["new"])
    await asyncio.sleep(2)
    assert ("new", began) in it.asked


async def test_results_without_subscribers_are_forgotten_at_last(it: Asked):
    for number in range(20):
        it.lookups.sync("a", [f"q{number}"])
        await asyncio.sleep(2)
    known = [number for number in range(20) if it.lookups.state(f"q{number}") is not None]
    assert known == [14, 15, 16, 17, 18, 19]


async def test_after_the_end_nothing_is_asked(it: Asked):
    it.of = lambda _question: 1e9
    it.lookups.sync("a", ["q"])
    await asyncio.sleep(1)
    await it.lookups.aclose()
    it.lookups.sync("b", ["r"])
    await asyncio.sleep(100)
    assert it.asked == [("q", 0)]
    assert it.woken == []
