"""How a manager starts what it runs, shares the grace period, and what it leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.runtime.kind import ManagerMisuse
from controller.runtime.manager import Group, Writers
from tests.conformance.test_manager import Lead, Part, Run


async def test_start_and_stop_are_logged():
    with capture_logs() as logs:
        run = Run([(Group.ELECTED, Part("writer", []))])
        await asyncio.sleep(1)
        await run.end()
        stubborn = Part("stubborn", [], lingers=None, survives=100.0)
        run = Run([(Group.ELECTED, stubborn)], grace=10.0)
        await asyncio.sleep(1)
        await run.end()
    started = {"event": "manager.started", "log_level": "info"}
    stopped = {"event": "manager.stopped", "log_level": "info"}
    assert logs == [
        started,
        {**stopped, "writers_ended": True},
        started,
        {**stopped, "writers_ended": False},
    ]


async def test_misuse_errors_and_a_lost_lead_are_said_word_for_word():
    lead = Lead([])
    run = Run([], lead=lead)
    await asyncio.sleep(1)
    with pytest.raises(ManagerMisuse, match=r"^a manager runs once$"):
        await run.manager.run(asyncio.Event())
    lead.gone.set()
    with pytest.raises(ExceptionGroup) as caught:
        await run.task
    assert caught.value.message == "the operator did not end well"
    assert [str(error) for error in caught.value.exceptions] == ["leader election lost"]


async def test_an_election_that_fails_is_an_error_of_its_own():
    class Broken(Lead):
        async def acquire(self) -> None:
            raise KeyError("lease")

    (error,) = await Run([], lead=Broken([])).errors()
    assert repr(error) == "KeyError('lease')"


async def test_a_cancelled_manager_takes_nothing_more():
    run = Run([(Group.ELECTED, Part("writer", []))])
    await asyncio.sleep(1)
    assert not run.manager.stopping
    run.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run.task
    assert run.manager.stopping


async def test_a_standby_that_is_stopped_no_longer_waits_for_the_lead():
    before, lead = asyncio.all_tasks(), Lead([], wins=False)
    run = Run([], lead=lead)
    await asyncio.sleep(1)
    assert await run.end() == []
    assert asyncio.all_tasks() == before


LEADS_SINCE = 7.0


class Task:
    """A controller or cache that runs until it is closed; its tasks by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: list[str] = []
        self.confirmed, self.closed = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None

    async def confirm(self, since: float) -> None:
        assert since == LEADS_SINCE
        await self.confirmed.wait()
        if self.error is not None:
            raise self.error

    async def run(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task.get_name())
        await self.closed.wait()

    async def flush(self) -> None:
        self.tasks.append("flush")
        self.closed.set()

    def close(self) -> None:
        self.closed.set()


def writers(*parts: Task) -> Any:
    caches, *controllers = parts
    made: Any = Writers
    return made(caches, controllers, leads_since=lambda: LEADS_SINCE)


async def test_nothing_is_written_before_the_caches_are_confirmed():
    parts = [Task(name) for name in ("caches", "widgets", "gadgets")]
    runnable, ready = writers(*parts), asyncio.Event()
    running = asyncio.create_task(runnable.run(ready.set))
    await asyncio.sleep(5)
    assert not ready.is_set()
    assert [part.tasks for part in parts] == [[]] * 3
    parts[0].confirmed.set()
    await asyncio.sleep(1)
    assert ready.is_set()
    assert [part.tasks for part in parts[1:]] == [["widgets"], ["gadgets"]]
    runnable.stop()
    await running
    assert all(part.closed.is_set() for part in parts[1:])


async def test_a_stop_before_the_caches_are_confirmed_starts_nothing():
    parts = [Task(name) for name in ("caches", "widgets")]
    before, runnable, ready = asyncio.all_tasks(), writers(*parts), asyncio.Event()
    running = asyncio.create_task(runnable.run(ready.set))
    await asyncio.sleep(5)
    runnable.stop()
    await running
    assert not ready.is_set()
    assert [part.tasks for part in parts] == [[]] * 2
    assert asyncio.all_tasks() == before


async def test_caches_that_cannot_be_confirmed_are_an_error():
    parts = [Task(name) for name in ("caches", "widgets")]
    parts[0].error = KeyError("a")
    parts[0].confirmed.set()
    with pytest.raises(KeyError):
        await writers(*parts).run(lambda: None)
