"""The manager by upstream's rows (controller-runtime, `manager_test.go` and its like)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable

import pytest

from controller.runtime.kind import LeadershipLost, ManagerMisuse, StopTimeout
from controller.runtime.manager import Group, Manager
from controller.testing.faults import DelayedResponse, Rule
from tests.fakes.operators import queued, unready
from tests.runtime.widgets import WidgetKind, WidgetWorld, widget_world


class Part:
    """A runnable that writes down what happens to it.

    `lingers` is how many seconds it takes to end after being asked, None if it ends only when
    cancelled; `survives` how many after being cancelled.
    """

    def __init__(
        self,
        name: str,
        log: list[str],
        *,
        ready_after: float = 0.0,
        lingers: float | None = 0.0,
        survives: float = 0.0,
        error: Exception | None = None,
        end_error: Exception | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.ready_after = ready_after
        self.lingers = lingers
        self.survives = survives
        self.error = error
        self.end_error = end_error
        self._asked = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        self.log.append(f"{self.name} starts")
        try:
            await asyncio.sleep(self.ready_after)
            if self.error is not None:
                raise self.error
            ready()
            self.log.append(f"{self.name} ready")
            await self._asked.wait()
            if self.lingers is None:
                await asyncio.Event().wait()
            await asyncio.sleep(self.lingers or 0)
            if self.end_error is not None:
                raise self.end_error
            self.log.append(f"{self.name} ended")
        except asyncio.CancelledError:
            self.log.append(f"{self.name} cancelled")
            if self.survives:
                await asyncio.sleep(self.survives)
            raise

    def stop(self) -> None:
        self._asked.set()


class Lead:
    def __init__(self, log: list[str], *, wins: bool = True) -> None:
        self.log = log
        self.won = asyncio.Event()
        self.gone = asyncio.Event()
        if wins:
            self.won.set()

    def is_leader(self) -> bool:
        return self.won.is_set()

    def time_left(self) -> float:
        return math.inf

    async def acquire(self) -> None:
        await self.won.wait()
        self.log.append("won")

    async def lost(self) -> None:
        await self.gone.wait()

    async def release(self) -> None:
        self.log.append("released")

    async def aclose(self) -> None:
        self.log.append("closed")


class Run:
    def __init__(
        self, parts: list[tuple[Group, Part]], *, grace: float = 30.0, lead: Lead | None = None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.manager = Manager(clock=self.loop, grace=grace, election=lead)
        for group, part in parts:
            self.manager.add(group, part)
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(self.manager.run(self.stop))

    async def end(self) -> list[Exception]:
        self.stop.set()
        return await self.errors()

    async def errors(self) -> list[Exception]:
        try:
            await self.task
        except ExceptionGroup as group:
            return list(group.exceptions)
        return []


async def test_the_lead_is_given_away_only_after_everything_that_writes_has_ended():
    log: list[str] = []
    lead = Lead(log)
    recorder = Part("recorder", log, lingers=1.0)
    parts = [(Group.ALWAYS, recorder), (Group.ELECTED, Part("writer", log, lingers=3.0))]
    run = Run(parts, lead=lead)
    await asyncio.sleep(1)
    assert await run.end() == []
    assert log.index("writer ended") < log.index("released") < log.index("closed")
    assert log.index("recorder ended") < log.index("released"), "events are writes too"


async def test_who_has_lost_the_lead_gets_no_grace():
    log: list[str] = []
    lead = Lead(log)
    run = Run([(Group.ELECTED, Part("writer", log, lingers=5.0))], lead=lead)
    await asyncio.sleep(1)
    lead.gone.set()
    (error,) = await run.errors()
    assert isinstance(error, LeadershipLost)
    assert run.loop.time() < 1.1
    assert "writer cancelled" in log
    assert "released" not in log


async def test_what_needs_the_lead_is_never_started_while_stopping():
    log: list[str] = []
    lead = Lead(log, wins=False)
    slow = Part("slow", log, lingers=5.0)
    run = Run([(Group.ALWAYS, slow), (Group.ELECTED, Part("writer", log))], lead=lead)
    await asyncio.sleep(1)
    run.stop.set()
    await asyncio.sleep(1)
    lead.won.set()
    assert await run.end() == []
    assert "writer starts" not in log


async def test_the_lead_is_not_given_away_if_something_may_still_write():
    log: list[str] = []
    lead = Lead(log)
    stubborn = Part("stubborn", log, lingers=None, survives=100.0)
    run = Run([(Group.ELECTED, stubborn)], grace=10.0, lead=lead)
    await asyncio.sleep(1)
    errors = await run.end()
    assert [type(error) for error in errors] == [StopTimeout]
    assert "stubborn did not end in time" in str(errors[0])
    assert "released" not in log
    assert log[-1] == "closed"


async def test_groups_start_in_order_each_when_the_one_before_is_ready():
    log: list[str] = []
    parts = [
        (Group.ELECTED, Part("controllers", log)),
        (Group.ALWAYS, Part("recorder", log)),
        (Group.CACHES, Part("caches", log, ready_after=5.0)),
        (Group.HTTP, Part("http", log, ready_after=1.0)),
    ]
    run = Run(parts, lead=Lead(log))
    await asyncio.sleep(10)
    order = ["http", "caches", "recorder", "won", "controllers"]
    wanted = [f"{o} {w}" for o in order for w in ("starts", "ready") if o != "won"]
    wanted.insert(6, "won")
    assert log == wanted
    await run.end()


async def test_what_is_added_later_starts_at_once_in_its_group():
    log: list[str] = []
    run = Run([(Group.CACHES, Part("caches", log))])
    await asyncio.sleep(1)
    run.manager.add(Group.CACHES, Part("late", log, ready_after=1.0))
    await asyncio.sleep(2)
    assert log[-2:] == ["late starts", "late ready"]
    await run.end()
    assert "late ended" in log


async def test_what_is_under_way_may_finish_within_the_grace_period():
    log: list[str] = []
    run = Run([(Group.ELECTED, Part("writer", log, lingers=20.0))], grace=30.0)
    await asyncio.sleep(1)
    assert await run.end() == []
    assert log[-1] == "writer ended"
    assert run.loop.time() == pytest.approx(21.0, abs=0.01)


async def test_nothing_can_be_added_while_stopping():
    log: list[str] = []
    run = Run([(Group.ELECTED, Part("writer", log, lingers=5.0))])
    await asyncio.sleep(1)
    run.stop.set()
    await asyncio.sleep(1)
    with pytest.raises(ManagerMisuse, match="late cannot be added"):
        run.manager.add(Group.ELECTED, Part("late", log))
    await run.end()
    assert "late starts" not in log


async def test_a_cancellation_is_no_error():
    log: list[str] = []
    run = Run([(Group.ELECTED, Part("writer", log, lingers=None))], grace=10.0)
    await asyncio.sleep(1)
    assert await run.end() == []
    assert log[-1] == "writer cancelled"


async def test_errors_of_running_and_of_stopping_are_both_told():
    log: list[str] = []
    parts = [
        (Group.ELECTED, Part("broken", log, ready_after=1.0, error=RuntimeError("while running"))),
        (Group.CACHES, Part("sour", log, end_error=RuntimeError("while stopping"))),
    ]
    errors = await Run(parts).errors()
    assert sorted(str(error) for error in errors) == ["while running", "while stopping"]


async def test_without_grace_nothing_is_waited_for():
    log: list[str] = []
    run = Run([(Group.ELECTED, Part("writer", log, lingers=50.0))], grace=0.0)
    await asyncio.sleep(1)
    assert await run.end() == []
    assert run.loop.time() < 1.01


async def test_a_negative_grace_waits_for_ever():
    log: list[str] = []
    run = Run([(Group.ELECTED, Part("writer", log, lingers=5000.0))], grace=-1.0)
    await asyncio.sleep(1)
    assert await run.end() == []
    assert run.loop.time() == pytest.approx(5001.0, abs=0.01)


async def test_a_manager_runs_once():
    run = Run([])
    await asyncio.sleep(1)
    with pytest.raises(ManagerMisuse, match="once"):
        await run.manager.run(asyncio.Event())
    await run.end()


async def test_an_error_that_comes_slowly_after_the_stop_leaks_nothing():
    before = asyncio.all_tasks()
    log: list[str] = []
    slow = Part("slow", log, lingers=5.0, end_error=RuntimeError("late"))
    run = Run([(Group.ALWAYS, slow), (Group.HTTP, Part("http", log))])
    await asyncio.sleep(1)
    (error,) = await run.end()
    assert str(error) == "late"
    assert asyncio.all_tasks() == before


async def test_probes_are_answered_until_the_end():
    log: list[str] = []
    parts = [
        (Group.HTTP, Part("http", log)),
        (Group.CACHES, Part("caches", log)),
        (Group.ALWAYS, Part("recorder", log)),
        (Group.ELECTED, Part("writer", log, lingers=5.0)),
    ]
    run = Run(parts)
    await asyncio.sleep(1)
    await run.end()
    ended = [line for line in log if line.endswith("ended")]
    assert ended == ["writer ended", "recorder ended", "caches ended", "http ended"]


async def test_a_group_that_does_not_become_ready_holds_back_the_next():
    log: list[str] = []
    parts = [
        (Group.CACHES, Part("caches", log, ready_after=1000.0)),
        (Group.ELECTED, Part("writer", log)),
    ]
    run = Run(parts)
    await asyncio.sleep(500)
    assert log == ["caches starts"]
    assert await run.end() == []
    assert "writer starts" not in log


async def test_a_cancelled_manager_cancels_everything_and_waits_until_it_has_ended():
    before = asyncio.all_tasks()
    log: list[str] = []
    run = Run([(Group.ELECTED, Part("writer", log, lingers=20.0, survives=2.0))])
    await asyncio.sleep(1)
    run.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run.task
    assert log[-1] == "writer cancelled"
    assert asyncio.all_tasks() == before


# -- with a whole operator ------------------------------------------------------------------------


@pytest.fixture
async def widgets() -> AsyncIterator[WidgetWorld]:
    async with widget_world() as world:
        yield world


async def test_the_queue_is_filled_before_the_lead_is_won(widgets: WidgetWorld):
    lead = Lead([], wins=False)
    await widgets.create("early", size=2)
    operator = widgets.start(election=lead)
    await widgets.settle(30)
    assert queued(operator) == 1
    assert operator.kind.seen == []
    assert widgets.requests("create", "patch") == 0
    lead.won.set()
    await widgets.counted(2, "early")


async def test_a_stop_between_two_writes_lets_the_reconcile_finish(widgets: WidgetWorld):
    slow = Rule(DelayedResponse(2.0), "configmaps", frozenset({"create"}))
    operator = widgets.start(kind=WidgetKind(), rules=[slow])
    await widgets.create(size=3)
    await widgets.eventually(lambda: len(widgets.created) == 1)
    began = widgets.loop.time()
    assert await operator.stop() == 0
    assert len(widgets.created) == 3, "the second stage of the slow start was sent as well"
    assert widgets.loop.time() - began < 10
    assert (await widgets.widget()).status.children == 0, "the status of that reconcile was written"
    assert widgets.requests("patch", resource="widgets.test.dev/status") == 1


async def test_a_stopped_operator_is_not_ready_and_leaves_no_task(widgets: WidgetWorld):
    before = asyncio.all_tasks()
    operator = widgets.start()
    await widgets.create(size=1)
    await widgets.counted(1)
    assert await operator.stop() == 0
    assert unready(operator, "readyz", "stopping") is not None
    assert unready(operator, "livez", "ping") is None
    assert asyncio.all_tasks() == before
