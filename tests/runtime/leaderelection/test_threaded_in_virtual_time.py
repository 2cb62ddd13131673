"""What an election makes of the candidate on its thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from controller.runtime.election import ThreadedElection
from tests.fakes.clean_up import ends_in_a_cancelled_task


class Scripted:
    """A candidate that leads until a moment which a test moves."""

    def __init__(self) -> None:
        self.until = 0.0
        self.problem = ""

    def time_left(self) -> float:
        return max(0.0, self.until - asyncio.get_running_loop().time())

    def is_leader(self) -> bool:
        return self.time_left() > 0


def not_begun() -> ThreadedElection:
    return ThreadedElection(lambda: pytest.fail("no thread is needed"))


def led_by(elector: Any) -> ThreadedElection:
    made = not_begun()
    made._elector = elector
    return made


async def test_a_thread_that_does_not_renew_is_given_up_after_twice_its_tolerance():
    elector, loop = Scripted(), asyncio.get_running_loop()
    began = loop.time()
    elector.until = began + 8
    await led_by(elector).lost()
    assert loop.time() - began == pytest.approx(8 + 4 + 4)


async def test_a_process_that_was_frozen_goes_on_if_its_thread_still_renews():
    elector, loop = Scripted(), asyncio.get_running_loop()
    elector.until = loop.time() + 8
    losing = asyncio.create_task(led_by(elector).lost())
    await asyncio.sleep(13)
    assert not losing.done()
    elector.until = loop.time() + 1000
    await asyncio.sleep(900)
    assert not losing.done()
    losing.cancel()


async def test_a_standby_that_could_not_take_over_is_not_ready():
    elector = Scripted()
    made = led_by(elector)
    assert made.standby_problem() is None
    elector.problem = "connection refused"
    assert made.standby_problem() == "connection refused"
    elector.until = asyncio.get_running_loop().time() + 8
    assert made.standby_problem() is None, "a leader has checks of its own"
    assert made.is_leader()
    assert made.time_left() == 8


async def test_an_election_that_never_began_does_not_lead_and_can_be_ended():
    made = not_begun()
    assert (made.is_leader(), made.time_left()) == (False, 0)
    assert made.standby_problem() is None
    await made.release()
    await made.aclose()


@pytest.mark.parametrize("end", [ThreadedElection.release, ThreadedElection.aclose])
async def test_a_thread_that_hangs_is_left_alone_even_in_a_task_that_has_been_cancelled(end: Any):
    made = not_begun()
    made._thread = threading.Thread()  # never started: whoever joins it fails
    made._loop = asyncio.get_running_loop()
    assert await ends_in_a_cancelled_task(end(made))
