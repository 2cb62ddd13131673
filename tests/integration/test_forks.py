"""Scenarios that are continued in a forked process with a fault."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.integration.forks import Forks

pytestmark = pytest.mark.embedded_only


async def test_at_each_place_a_child_meets_the_fault_and_has_the_same_past():
    forks = Forks[tuple[float, list[int]]]()

    async def scenario() -> tuple[float, list[int]]:
        met: list[int] = []
        for step in range(3):
            await asyncio.sleep(1)
            if forks.strikes():
                met.append(step)
        return asyncio.get_running_loop().time(), met

    assert await forks.play(scenario()) == (3.0, [])
    assert forks.outcomes == {0: (3.0, [0]), 1: (3.0, [1]), 2: (3.0, [2])}


async def test_of_many_places_only_some_may_have_a_fault():
    forks = Forks[bool](1, 3)

    async def scenario() -> bool:
        return any(forks.strikes() for _ in range(7))

    assert not await forks.play(scenario())
    assert forks.places == 7
    assert forks.outcomes == {1: True, 4: True}


async def test_what_goes_wrong_in_a_child_is_told_in_words():
    forks = Forks[None]()

    async def scenario() -> None:
        if forks.strikes():
            raise ValueError("two workers")
        if forks.strikes():
            os._exit(3)

    await forks.play(scenario())
    assert forks.outcomes == {0: "ValueError('two workers')", 1: "the child ended with 3"}
