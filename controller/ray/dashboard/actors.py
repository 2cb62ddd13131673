"""All dashboards: one actor per head incarnation, one scheduler for all of them.

There is no task per actor: a heap knows whose time has come, `RequestSlots` whose turn it is, and each
request is a task that ends with its answer. Each controller leaves interests and commands with a
handle of its own; what is found wakes their keys when it is new.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, TypeVar

import structlog

from controller.ray.dashboard.actor import HeadActor
from controller.ray.dashboard.commands import CommandDone, CommandRefused
from controller.ray.dashboard.errors import (
    DashboardError,
    FenceClosed,
    NoResponse,
    NotAuthorized,
    RefusedByRay,
    UnexpectedResponse,
)
from controller.ray.dashboard.pending import PendingCommand
from controller.ray.dashboard.settings import DashboardSettings
from controller.ray.dashboard.slots import CLOCK_RESOLUTION, RequestSlots, Responsiveness
from controller.ray.dashboard.statistics import NO_METRICS, DashboardStatistics
from controller.ray.dashboard.subscriber import Subscriber
from controller.runtime.leaderelection.election import AlwaysLeader
from workqueue import DelayQueue

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import datetime

    from controller.ray.dashboard.client import DashboardClient
    from controller.ray.dashboard.commands import CommandOutcome, HeadCommand
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.observation import ProbeObservation
    from controller.ray.dashboard.pending import CommandId
    from controller.ray.dashboard.probes import Probe, ProbeSubscription
    from controller.ray.dashboard.results import CommandValue
    from controller.ray.dashboard.statistics import RequestMetrics
    from controller.ray.dashboard.watched import ProbeState
    from controller.runtime.leaderelection.election import Fence
    from informers import Clock

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_Subject: TypeAlias = "tuple[Head, Probe]"

_log = structlog.stdlib.get_logger("manta.dashboard")

CONCURRENCY = 128
"""Requests to dashboards under way at most."""


class _Request(Protocol[T_co]):
    """What probes and commands have in common."""

    name: ClassVar[str]

    async def send(self, client: DashboardClient) -> T_co: ...


class DashboardActors:
    """The actors of one process, shared by all controllers that deal with Ray.

    To be used within one running event loop. Whoever made them closes them, after the controllers.

    Args:
        connect: makes the client of a head; may read its token. Raises `DashboardError`.
        clock: the loop.
        wall: the time of day in UTC.
        rng: for jitter.
        fence: commands are sent only while it says that this process leads; None sends always.
        concurrency: requests under way at most.
        settings: how often and how patiently.
        metrics: told of each request.
    """

    def __init__(
        self,
        connect: Callable[[Head], Awaitable[DashboardClient]],
        *,
        clock: Clock,
        wall: Callable[[], datetime],
        rng: random.Random,
        fence: Fence | None = None,
        concurrency: int = CONCURRENCY,
        settings: DashboardSettings | None = None,
        metrics: RequestMetrics = NO_METRICS,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._fence: Fence = AlwaysLeader() if fence is None else fence
        self._settings = settings or DashboardSettings()
        self._metrics = metrics
        self._handles: dict[str, ControllerDashboards] = {}
        self._actors: dict[Head, HeadActor] = {}
        self._interests: dict[Subscriber, frozenset[_Subject]] = {}
        self._failing: set[Head] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._due: DelayQueue[HeadActor] = DelayQueue(clock, self._released)
        self._slots: RequestSlots[HeadActor] = RequestSlots(
            clock,
            concurrency=concurrency,
            rate=self._settings.rate,
            burst=self._settings.burst,
            start=self._start,
        )
        self._closed = False

    # What a controller does, through its handle.

    def for_controller(self, name: str) -> ControllerDashboards:
        """A handle for the controller of this name.

        Raises:
            ValueError: that controller has a handle already.
        """
        if name in self._handles:
            raise ValueError(f"{name} has its dashboards already")
        handle = self._handles[name] = ControllerDashboards(self, name)
        return handle

    def sync(self, subscriber: Subscriber, interests: tuple[ProbeSubscription, ...]) -> None:
        """The complete set of probes that an object wants from now on."""
        if self._closed:
            return
        now, wall = self._clock.time(), self._wall()
        intervals = _shortest(interests, self._settings.interval)
        former, wanted = self._interests.get(subscriber, frozenset()), frozenset(intervals)
        for (head, probe), interval in intervals.items():
            self._actor(head).subscribe(probe, subscriber, interval, now, wall)
        for head, probe in former - wanted:
            self._actors[head].unsubscribe(probe, subscriber, now)
        if wanted:
            self._interests[subscriber] = wanted
        else:
            self._interests.pop(subscriber, None)
        for head in {head for head, _ in wanted | former}:
            self._settle(self._actors[head])

    def hand_over(self, subscriber: Subscriber, commands: tuple[HeadCommand, ...]) -> None:
        """Carry out commands; those that are known already only once.

        The outcome can be read while the object has an interest in the same head.
        """
        if self._closed:
            return
        now, wall = self._clock.time(), self._wall()
        for order in commands:
            actor, command = self._actor(order.head), order.command
            expires_at = now + (command.deadline - wall).total_seconds()
            pending = PendingCommand(subscriber, command, expires_at)
            if not actor.knows(pending.id):
                self._wake(actor.add_command(pending, now, wall))
            self._settle(actor)

    async def leave(self, controller: str) -> None:
        """End everything that this controller has under way; what others want goes on."""
        self._handles.pop(controller, None)
        ended: list[asyncio.Task[None]] = []
        for actor in list(self._actors.values()):
            subject, task = actor.subject, actor.task
            actor.drop_commands(controller, self._clock.time())
            if isinstance(subject, PendingCommand) and subject.subscriber.controller == controller:
                self._cancel(actor)
            for subscriber in [
                each for each in actor.subscribers() if each.controller == controller
            ]:
                self.sync(subscriber, ())
            self._settle(actor)
            if task is not None and task.cancelling():
                ended.append(task)
        await asyncio.gather(*ended, return_exceptions=True)

    async def aclose(self) -> None:
        """End everything that is under way."""
        self._closed = True
        self._due.clear()
        self._slots.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._actors.clear()
        self._interests.clear()
        self._failing.clear()

    # What planners read.

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """What the probe has found; None if nobody is interested in it."""
        actor = self._actors.get(head)
        watched = None if actor is None else actor.probe_state(probe)
        return (
            None if actor is None or watched is None else watched.observation(actor.silence_streak)
        )

    def outcome(self, head: Head, command_id: CommandId) -> CommandOutcome | None:
        """How a command ended; None while it is open, unknown or forgotten."""
        actor = self._actors.get(head)
        return None if actor is None else actor.outcome(command_id)

    def statistics(self) -> DashboardStatistics:
        """The numbers as they are now."""
        return DashboardStatistics(
            actors=len(self._actors),
            failing=len(self._failing),
            probes=sum(actor.probes for actor in self._actors.values()),
            commands=sum(actor.pending for actor in self._actors.values()),
            waiting=self._slots.waiting,
            in_flight={trust.value: busy for trust, busy in self._slots.busy.items()},
        )

    # Whose turn it is.

    def _actor(self, head: Head) -> HeadActor:
        actor = self._actors.get(head)
        if actor is None:
            actor = self._actors[head] = HeadActor(head, self._settings, self._metrics)
        return actor

    def _settle(self, actor: HeadActor) -> None:
        """After any change: end the actor, queue it, or have it called when its time comes."""
        if actor.closed or self._closed:
            return
        if actor.idle:
            self._end(actor)
            return
        now = self._clock.time() + CLOCK_RESOLUTION
        if actor.task is None and actor.next_due() <= now:
            actor.queued = True
            self._slots.enqueue(actor, actor.responsiveness, urgent=actor.urgent(now))
        waits = actor.task is not None or actor.queued
        when = min(actor.next_deadline(), float("inf") if waits else actor.next_due())
        if when == float("inf"):
            self._due.discard(actor)
        else:
            self._due.set(actor, when)

    def _released(self, actor: HeadActor, _due: float) -> None:
        self._wake(actor.expire(self._clock.time() + CLOCK_RESOLUTION))
        self._settle(actor)

    def _start(self, actor: HeadActor, trust: Responsiveness) -> bool:
        actor.queued = False
        subject = actor.next_request(self._clock.time() + CLOCK_RESOLUTION)
        if subject is None:
            self._settle(actor)
            return False
        actor.subject = subject
        actor.task = asyncio.create_task(self._serve(actor, subject, trust))
        self._tasks.add(actor.task)
        actor.task.add_done_callback(self._tasks.discard)
        self._settle(actor)
        return True

    def _end(self, actor: HeadActor) -> None:
        actor.closed = True
        del self._actors[actor.head]
        self._failing.discard(actor.head)
        self._due.discard(actor)
        self._slots.discard(actor)
        self._cancel(actor)

    @staticmethod
    def _cancel(actor: HeadActor) -> None:
        if actor.task is not None:
            actor.task.cancel()

    # One request.

    async def _serve(
        self, actor: HeadActor, subject: PendingCommand | Probe, trust: Responsiveness
    ) -> None:
        try:
            if isinstance(subject, PendingCommand):
                await self._command(actor, subject)
            else:
                await self._probe(actor, subject)
        finally:
            actor.task = actor.subject = None
            self._slots.release(trust)
            self._settle(actor)

    async def _probe(self, actor: HeadActor, probe: Probe) -> None:
        watched = actor.probe_state(probe)
        if watched is None:
            return
        began, generation = self._wall(), watched.generation
        watched.requested_at = self._clock.time()
        answer = await self._ask(actor, probe)
        if actor.closed:
            return
        now = self._clock.time()
        if isinstance(answer, DashboardError):
            self._failed(actor, [watched], began, answer)
        else:
            self._answered(actor, usable=True)
            counts = watched.generation == generation
            if counts and watched.record_value(answer, began, now):
                self._wake(watched.subscribers)
        actor.ask_again(probe, watched, now)

    async def _command(self, actor: HeadActor, pending: PendingCommand) -> None:
        command, began = pending.command, self._wall()
        affected = [
            watched
            for probe in command.invalidates
            if (watched := actor.probe_state(probe)) is not None
        ]
        answer = await self._ask(actor, command, self._fence)
        if actor.closed:
            return
        if isinstance(answer, DashboardError) and not isinstance(answer, RefusedByRay):
            pending.failures += 1
            pending.error = str(answer)
            if not isinstance(answer, FenceClosed):
                self._failed(actor, affected, began, answer)
            woken = actor.try_again(pending, self._clock.time())
        else:
            self._answered(actor, usable=True)
            for watched in affected:
                if watched.failures.end():
                    self._wake(watched.subscribers)
            woken = actor.finish(pending, _outcome(answer), self._clock.time())
        self._wake(woken)

    async def _ask(
        self, actor: HeadActor, request: _Request[T], fence: Fence | None = None
    ) -> T | DashboardError:
        """The answer, or the error in place of one. What changes something needs a fence."""
        started = self._clock.time()
        try:
            client = await self._client(actor)
            async with asyncio.timeout(self._patience(actor, fence)):
                answer: T | DashboardError = await request.send(client)
            result = "answered"
        except TimeoutError:
            answer, result = NoResponse(f"{actor.head} does not answer"), "no_answer"
        except DashboardError as error:
            answer, result = error, _result(error)
        except (Exception, asyncio.CancelledError) as error:  # one oddity must not end an actor
            if _is_cancelled():
                raise
            _log.exception("dashboard.request_failed", head=str(actor.head), request=request.name)
            answer, result = UnexpectedResponse(f"{type(error).__name__}: {error}"), "unusable"
        self._metrics.record_request(request.name, result, self._clock.time() - started)
        return answer

    def _patience(self, actor: HeadActor, fence: Fence | None) -> float | None:
        """Seconds for a request, None if the client's own limit is enough."""
        limits = (
            [self._settings.first_request_timeout]
            if actor.responsiveness is Responsiveness.UNKNOWN
            else []
        )
        if fence is not None:
            if not fence.is_leader():
                raise FenceClosed("this process does not lead")
            limits.append(fence.time_left())
        limit = min(limits, default=math.inf)
        return None if math.isinf(limit) else limit

    async def _client(self, actor: HeadActor) -> DashboardClient:
        if actor.client is None:
            limit = self._settings.connect_timeout
            try:
                async with asyncio.timeout(limit):
                    actor.client = await self._connect(actor.head)
            except TimeoutError:
                raise NoResponse(f"no connection to {actor.head} in {limit:g} s") from None
        return actor.client

    # What became of it.

    def _failed(
        self, actor: HeadActor, affected: list[ProbeState], began: datetime, error: DashboardError
    ) -> None:
        sentence = str(error)
        if isinstance(error, NotAuthorized):
            actor.client = None  # the token may be another one by now
        if isinstance(error, NoResponse):
            stretch = 1 + self._settings.backoff.jitter * self._rng.random()
            if actor.note_silence(began, sentence, self._clock.time(), stretch):
                self._failing.add(actor.head)
                _log.warning("dashboard.failing", head=str(actor.head), error=sentence)
                self._wake(actor.subscribers())
        else:
            self._answered(actor, usable=False)
        for watched in affected:
            if watched.failures.add(began, sentence):
                self._wake(watched.subscribers)

    def _answered(self, actor: HeadActor, *, usable: bool) -> None:
        if actor.note_answer(usable=usable):
            self._failing.discard(actor.head)
            _log.info("dashboard.answers_again", head=str(actor.head))
            self._wake(actor.subscribers())

    def _wake(self, subscribers: Iterable[Subscriber]) -> None:
        for controller, key in list(subscribers):
            handle = self._handles.get(controller)
            if handle is not None:
                handle.wake(key)


class ControllerDashboards:
    """The dashboards of one controller: its `Outside`, and the `Dashboards` that its kind reads.

    Made by `DashboardActors.for_controller`. Keys and ids of commands are the controller's own.

    Args:
        actors: whose handle this is.
        name: of the controller.
    """

    def __init__(self, actors: DashboardActors, name: str) -> None:
        self._actors = actors
        self._name = name
        self._closed = False
        self.wake: Callable[[str], None] = _nobody

    def attach(self, wake: Callable[[str], None]) -> None:
        """See `Outside.attach`."""
        self.wake = wake

    def sync(self, key: str, interests: tuple[ProbeSubscription, ...]) -> None:
        """See `Outside.sync`."""
        if not self._closed:
            self._actors.sync(Subscriber(self._name, key), interests)

    def hand_over(self, key: str, commands: tuple[HeadCommand, ...]) -> None:
        """See `Outside.hand_over`."""
        if not self._closed:
            self._actors.hand_over(Subscriber(self._name, key), commands)

    async def aclose(self) -> None:
        """See `Outside.aclose`; the other controllers' dashboards stay open."""
        self._closed = True
        await self._actors.leave(self._name)

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """See `Dashboards.observation`."""
        return self._actors.observation(head, probe)

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        """See `Dashboards.outcome`."""
        return self._actors.outcome(head, (self._name, command_id))


def _shortest(interests: tuple[ProbeSubscription, ...], default: float) -> dict[_Subject, float]:
    """The interval of each probe, the shortest where it is named twice."""
    found: dict[_Subject, float] = {}
    for interest in interests:
        subject = interest.head, interest.probe
        interval = default if interest.interval is None else interest.interval
        found[subject] = min(interval, found.get(subject, interval))
    return found


def _outcome(answer: CommandValue | RefusedByRay) -> CommandOutcome:
    return CommandRefused(str(answer)) if isinstance(answer, RefusedByRay) else CommandDone(answer)


def _result(error: DashboardError) -> str:
    if isinstance(error, FenceClosed):
        return "not_sent"
    if isinstance(error, RefusedByRay):
        return "refused"
    return "no_answer" if isinstance(error, NoResponse) else "unusable"


def _is_cancelled() -> bool:
    """Whether this task is to end, rather than something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _nobody(_key: str) -> None:
    """Wakes nobody: nothing is attached yet."""
