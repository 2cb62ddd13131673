"""Starts and stops all parts of the process in order (MGR rules).

Groups start in the order of `Group`, each when the previous one is ready; groups that write start
only when this process leads. They stop in reverse order: writers first, HTTP last, so that probes
are answered until the end. A runnable that has not ended after four fifths of the grace period is
cancelled.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any, Protocol

import structlog

from controller.runtime.caches import Caches
from controller.runtime.controller import Controller
from controller.runtime.debug import EventLoop
from controller.runtime.election import AlwaysLeader, Election
from controller.runtime.kind import LeadershipLost, ManagerMisuse, StopTimeout
from controller.runtime.metrics import RuntimeMetrics
from workqueue import Clock, TimerHandle

WORKING_SHARE = 0.8
"""Part of the grace period in which work in flight may finish; then it is cancelled (MGR-9)."""

CLOSING_SHARE = 0.9
"""The same for everything that does not write and is stopped afterwards."""

_log = structlog.stdlib.get_logger("manta.manager")


class Group(IntEnum):
    """The groups in their order of start (MGR-1)."""

    HTTP = 1  # probes must be answered before caches are complete
    CACHES = 2
    ALWAYS = 3  # neither writes nor serves: recorders, monitors
    ELECTED = 4  # writes: only the leader


class Runnable(Protocol):
    """A part of the process that is started and stopped."""

    @property
    def name(self) -> str:
        """For logs and messages."""
        ...

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until stopped or cancelled; call `ready` when others may rely on it.

        An exception stops the manager, a plain return does not.
        """
        ...

    def stop(self) -> None:
        """Make `run` return. May be called before `run`, and more than once."""
        ...


class _Running:
    """One runnable and its task."""

    def __init__(self, runnable: Runnable, failed: Callable[[], None]) -> None:
        self.runnable = runnable
        self.ready = asyncio.Event()
        self.task = asyncio.create_task(runnable.run(self.ready.set), name=runnable.name)
        self.task.add_done_callback(self._ended)
        self._failed = failed

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.ready.set()
        if not task.cancelled() and task.exception() is not None:
            self._failed()


class Manager:
    """Runs runnables.

    Args:
        grace: seconds for stopping; 0 does not wait, a negative value waits forever.
    """

    def __init__(self, *, clock: Clock, grace: float, election: Election | None = None) -> None:
        self._clock = clock
        self._grace = grace
        self._election: Election = AlwaysLeader() if election is None else election
        self._groups: dict[Group, list[Runnable]] = {group: [] for group in Group}
        self._running: dict[Group, list[_Running]] = {group: [] for group in Group}
        self._opened: set[Group] = set()
        self._started = False
        self._stopping = False
        self._wanted = asyncio.Event()
        self._lost = False
        self._errors: list[Exception] = []

    @property
    def stopping(self) -> bool:
        """True if the stop has begun: from then on the process is not ready."""
        return self._stopping

    def add(self, group: Group, runnable: Runnable) -> None:
        """Run `runnable` in `group`, at once if that group has already started.

        Raises:
            ManagerMisuse: the manager is stopping.
        """
        if self._stopping:
            raise ManagerMisuse(f"{runnable.name} cannot be added: the manager is stopping")
        self._groups[group].append(runnable)
        if group in self._opened:
            self._start(group, runnable)

    async def run(self, stop: asyncio.Event) -> None:
        """Start everything, wait until `stop` is set or something fails, stop everything.

        Raises:
            ManagerMisuse: it was run before.
            ExceptionGroup: errors of runnables and of stopping, cancellations left out.
        """
        if self._started:
            raise ManagerMisuse("a manager runs once")
        self._started = True
        waiting = asyncio.create_task(self._await_stop(stop), name="manager stop")
        try:
            await self._live()
        except asyncio.CancelledError:
            await self._abandon()
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the rest must be stopped
            self._errors.append(error)
        finally:
            await _cancel(waiting)
        await self._end()
        if self._errors:
            raise ExceptionGroup("the operator did not end well", self._errors)

    async def _await_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wanted.set()

    async def _live(self) -> None:
        """Start the groups one after the other, then wait for a reason to stop."""
        for group in (Group.HTTP, Group.CACHES, Group.ALWAYS):
            if not await self._open(group):
                return
        if not await self._unless_stopped(self._election.acquire()):
            return
        watching = asyncio.create_task(self._watch_lead(), name="manager lead")
        try:
            if await self._open(Group.ELECTED):
                _log.info("manager.started")
                await self._wanted.wait()
        finally:
            await _cancel(watching)

    async def _watch_lead(self) -> None:
        await self._election.lost()
        self._lost = True
        self._errors.append(LeadershipLost("leader election lost"))
        self._wanted.set()

    async def _open(self, group: Group) -> bool:
        """Start a group and wait until all of it is ready; False if a stop came first."""
        self._opened.add(group)
        for runnable in self._groups[group]:
            self._start(group, runnable)
        return await self._unless_stopped(self._all_ready(group))

    async def _all_ready(self, group: Group) -> None:
        for running in self._running[group]:
            await running.ready.wait()

    def _start(self, group: Group, runnable: Runnable) -> None:
        self._running[group].append(_Running(runnable, self._wanted.set))

    async def _unless_stopped(self, step: Coroutine[Any, Any, None]) -> bool:
        """Run a step until it ends or a stop is requested; return whether it ended."""
        work = asyncio.create_task(step)
        wanted = asyncio.create_task(self._wanted.wait())
        try:
            await asyncio.wait({work, wanted}, return_when=asyncio.FIRST_COMPLETED)
            if self._wanted.is_set():
                return False
            work.result()
            return True
        finally:
            await _cancel(work, wanted)

    async def _end(self) -> None:
        """Stop the groups in reverse; release the lease only when no write can follow (MGR-11)."""
        self._stopping = True
        self._wanted.set()
        grace = 0.0 if self._lost else self._grace
        began = self._clock.time()
        writers_ended = True
        for group in (Group.ELECTED, Group.ALWAYS, Group.CACHES, Group.HTTP):
            share = WORKING_SHARE if group is Group.ELECTED else CLOSING_SHARE
            soft, hard = (None, None) if grace < 0 else (began + grace * share, began + grace)
            left = await self._close(group, soft, hard)
            if grace > 0:
                self._errors += [StopTimeout(f"{name} did not end in time") for name in left]
            if group in {Group.ELECTED, Group.ALWAYS}:  # the last events are writes too
                writers_ended = writers_ended and not left
            if group is Group.ALWAYS and writers_ended and not self._lost:
                await self._election.release()
        await self._election.aclose()
        self._collect_errors()
        _log.info("manager.stopped", writers_ended=writers_ended)

    async def _abandon(self) -> None:
        """Cancel all tasks and wait until they have ended, after the manager's own cancellation."""
        self._stopping = True
        tasks = [running.task for group in Group for running in self._running[group]]
        if tasks:
            await _cancel(*tasks)
        await self._election.aclose()

    async def _close(self, group: Group, soft: float | None, hard: float | None) -> list[str]:
        """Stop a group; return the names of the tasks that are still running afterwards."""
        tasks = {running.task for running in self._running[group]}
        for running in self._running[group]:
            running.runnable.stop()
        pending = await self._wait(tasks, soft)
        for running in self._running[group]:
            if running.task in pending:
                running.task.cancel()
        pending = await self._wait(pending, hard)
        return [task.get_name() for task in pending]

    async def _wait(
        self, tasks: set[asyncio.Task[None]], until: float | None
    ) -> set[asyncio.Task[None]]:
        """Return those of `tasks` that have not ended by `until`. Each runs at least once."""
        if not tasks:
            return set()
        timeout = None if until is None else max(0.0, until - self._clock.time())
        _, pending = await asyncio.wait(tasks, timeout=timeout)
        return pending

    def _collect_errors(self) -> None:
        for group in Group:
            for running in self._running[group]:
                task = running.task
                if task.done() and not task.cancelled():
                    error = task.exception()
                    if isinstance(error, Exception):
                        self._errors.append(error)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended, ignoring their results."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


class Writers:
    """Everything that writes: controllers, once the caches are confirmed.

    Args:
        leads_since: called as soon as this process leads; returns since when.
    """

    name = "controllers"

    def __init__(
        self,
        caches: Caches,
        controllers: Sequence[Controller[Any]],
        leads_since: Callable[[], float],
    ) -> None:
        self._caches = caches
        self._leads_since = leads_since
        self._controllers = controllers
        self._stopped = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until `stop`; ready once the caches are confirmed."""
        if not await self._confirmed():
            return
        ready()
        async with asyncio.TaskGroup() as group:
            for each in self._controllers:
                group.create_task(each.run(), name=each.name)

    def stop(self) -> None:
        """End the controllers once their present requests have ended."""
        self._stopped.set()
        for each in self._controllers:
            each.close()

    async def _confirmed(self) -> bool:
        """Confirm the caches; False if a stop came first."""
        confirming = asyncio.create_task(self._caches.confirm(self._leads_since()))
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({confirming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if confirming.done():
                confirming.result()
            return not self._stopped.is_set()
        finally:
            confirming.cancel()
            stopped.cancel()
            await asyncio.wait({confirming, stopped})


# Measures the lag of the event loop and the pauses of the garbage collector; reads the clock.

PERIOD = 1.0
"""Seconds between two measurements of the lag."""

_REMEMBERED = 60
"""Number of measurements to remember: those of a minute."""


class Monitor:
    """Measures until stopped. A `manager.Runnable`.

    Args:
        time_of_day: read every period, so that it notices jumps even if nothing else reads it.
    """

    name = "monitor"

    def __init__(
        self,
        metrics: RuntimeMetrics,
        *,
        clock: Clock,
        time_of_day: TimeOfDay,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._time_of_day = time_of_day
        self._stopped = asyncio.Event()
        self._timer: TimerHandle | None = None
        self._pause_began = 0.0
        self._lags: deque[float] = deque(maxlen=_REMEMBERED)

    async def run(self, ready: Callable[[], None]) -> None:
        """Measure until stopped."""
        gc.callbacks.append(self._on_collection)
        self._schedule()
        ready()
        try:
            await self._stopped.wait()
        finally:
            gc.callbacks.remove(self._on_collection)
            if self._timer is not None:
                self._timer.cancel()

    def stop(self) -> None:
        """Stop measuring."""
        self._stopped.set()

    def lag(self) -> EventLoop:
        """Return the lag of the last minute, the section `event_loop` of the debug page."""
        if not self._lags:
            return EventLoop(None, None)
        return EventLoop(round(self._lags[-1], 3), round(max(self._lags), 3))

    def _schedule(self) -> None:
        due = self._clock.time() + PERIOD
        self._timer = self._clock.call_at(due, lambda: self._measure(due))

    def _measure(self, due: float) -> None:
        lag = max(0.0, self._clock.time() - due)
        self._metrics.loop_lag.observe(lag)
        self._lags.append(lag)
        self._time_of_day()
        self._schedule()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._pause_began = self._clock.time()
        else:
            pause = self._clock.time() - self._pause_began
            self._metrics.gc_pauses.labels(info["generation"]).observe(pause)


# The time of day, which notices when it jumps.
#
# Timers run on the monotonic clock; deadlines and schedules are times of day. When one of the two
# jumps (the time is corrected, or the machine was suspended), timers end at the wrong moment, and
# the difference of two times of day is not the time that has passed.

CLOCK_JUMP = 5.0
"""Seconds by which the time of day may differ from what the monotonic clock expects."""


class TimeOfDay:
    """The time of day. A jump is reported before any later time is returned.

    Args:
        on_jump: called with the seconds of the jump and the time after it.
    """

    def __init__(
        self,
        wall: Callable[[], datetime],
        *,
        clock: Clock,
        on_jump: Callable[[float, datetime], None],
    ) -> None:
        self._wall = wall
        self._clock = clock
        self._on_jump = on_jump
        self._offset = self._offset_of(wall())

    def __call__(self) -> datetime:
        """Return the time of day, UTC."""
        now = self._wall()
        jump = self._offset_of(now) - self._offset
        if abs(jump) > CLOCK_JUMP:
            self._offset += jump
            self._on_jump(jump, now)
        return now

    def _offset_of(self, now: datetime) -> float:
        """Return the seconds between the time of day and the monotonic clock."""
        return now.timestamp() - self._clock.time()
