"""The dashboards of one process: who asks which head for what, and what comes of it."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import datetime
from functools import partial
from typing import Any, Final

import structlog

from controller.ray.dashboard import (
    BACKOFF,
    DashboardError,
    FenceClosed,
    Head,
    NoResponse,
    NotAuthorized,
    NotFinished,
    RefusedByRay,
    Subscriber,
)
from controller.ray.dashboard.client import DashboardClient
from controller.ray.dashboard.commands import (
    CommandDone,
    CommandId,
    CommandOutcome,
    CommandRefused,
    HeadCommand,
    PendingCommand,
)
from controller.ray.dashboard.head_actor import HeadActor, RequestSender, probe_listing
from controller.ray.dashboard.metrics import DashboardMetrics, DashboardStatistics
from controller.ray.dashboard.probes import (
    CommandValue,
    Probe,
    ProbeObservation,
    ProbeState,
    ProbeSubscription,
)
from controller.ray.dashboard.slots import CLOCK_RESOLUTION, RequestSlots, Responsiveness
from controller.runtime import debug
from controller.runtime.election import AlwaysLeader, Fence
from informers import Clock
from workqueue import DelayQueue

_log = structlog.stdlib.get_logger("manta.dashboard")

CONCURRENCY: Final = 128
"""Maximum requests to dashboards in flight at the same time."""

RATE: Final = 250.0
BURST: Final = 250
"""Requests a second of all actors together, and how many may exceed that rate."""

_POLLS: Final = 3
"""The back-off of a command that Ray still works on grows no further than after these failures."""


# The dashboards as one controller sees them.


class ControllerDashboards:
    """The dashboards of one controller: the runtime's `ExternalSource`, the kind's `Dashboards`.

    Created by `DashboardActors.for_controller`. Keys and ids of commands are the controller's own;
    probes of one head to which several controllers subscribe are shared.
    """

    def __init__(self, actors: DashboardActors, name: str) -> None:
        self._actors = actors
        self._name = name
        self._closed = False
        self._enqueue: Callable[[str], None] | None = None

    def start(self, enqueue: Callable[[str], None]) -> None:
        """Implement `ExternalSource.start`."""
        self._enqueue = enqueue

    def sync(self, key: str, subscriptions: tuple[ProbeSubscription, ...]) -> None:
        """Implement `ExternalSource.sync`."""
        if not self._closed:
            self._actors.sync(Subscriber(self._name, key), subscriptions)

    def submit(self, key: str, commands: tuple[HeadCommand, ...]) -> None:
        """Implement `ExternalSource.submit`.

        An outcome can be read for as long as the object subscribes to a probe of the same head.
        """
        if not self._closed:
            self._actors.submit(Subscriber(self._name, key), commands)

    async def aclose(self) -> None:
        """Implement `ExternalSource.aclose`; the dashboards of other controllers stay open."""
        self._closed = True
        await self._actors.leave(self._name)

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """Implement `Dashboards.observation`."""
        return self._actors.observation(head, probe)

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        """Implement `Dashboards.outcome`."""
        return self._actors.outcome(head, (self._name, command_id))

    def enqueue(self, key: str) -> None:
        """Make the controller reconcile one of its objects; called by the actors."""
        if self._enqueue is not None:
            self._enqueue(key)


# The actors, one for each head incarnation. Each controller submits subscriptions and commands
# through a handle of its own; its keys are enqueued when there is something new to observe.


class DashboardActors:
    """The actors of one process, shared by all controllers of Ray kinds.

    Use them within one running event loop, and close them after the controllers have ended.

    Args:
        connect: creates the client of a head; may read its token. Raises `DashboardError`.
        fence: commands are sent only while it is open; None stands for one that always is.
    """

    def __init__(
        self,
        connect: Callable[[Head], Awaitable[DashboardClient]],
        *,
        clock: Clock,
        wall: Callable[[], datetime],
        rng: random.Random,
        fence: Fence | None = None,
        metrics: DashboardMetrics | None = None,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._metrics = metrics or DashboardMetrics()
        self._handles: dict[str, ControllerDashboards] = {}
        self._actors: dict[Head, HeadActor] = {}
        self._heads: dict[Subscriber, tuple[Head, ...]] = {}
        self._rng = rng
        self._fence = AlwaysLeader() if fence is None else fence
        self._sender = RequestSender(connect, clock=clock, metrics=self._metrics)
        self._tasks: set[asyncio.Task[None]] = set()
        self._due: DelayQueue[HeadActor] = DelayQueue(clock, self._on_due)
        self._slots: RequestSlots[HeadActor] = RequestSlots(
            clock, concurrency=CONCURRENCY, rate=RATE, burst=BURST, start=self._start
        )
        self._closed = False

    def for_controller(self, name: str) -> ControllerDashboards:
        """Return the handle of the controller of this name.

        Raises:
            ValueError: that controller has a handle already.
        """
        if name in self._handles:
            raise ValueError(f"{name} has its dashboards already")
        handle = self._handles[name] = ControllerDashboards(self, name)
        return handle

    async def aclose(self) -> None:
        """Cancel all requests, start no more, and close the clients."""
        self._closed = True
        self._due.clear()
        self._slots.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._actors.clear()
        self._heads.clear()

    def statistics(self) -> DashboardStatistics:
        """Return the present numbers."""
        actors = self._actors.values()
        return DashboardStatistics(
            actors=len(actors),
            failing=sum(actor.silence.decisive for actor in actors),
            probes=sum(len(actor.probes) for actor in actors),
            commands=sum(len(actor.commands) for actor in actors),
            waiting=self._slots.waiting,
            in_flight={each.value: busy for each, busy in self._slots.busy.items()},
        )

    def snapshot(self) -> debug.BoundedList[debug.ProbeEntry]:
        """List the present probes for the debug page, failing ones first."""
        return probe_listing(self._actors.values(), self._wall())

    # What the handles of controllers call.

    def sync(self, subscriber: Subscriber, subscriptions: tuple[ProbeSubscription, ...]) -> None:
        """Set the complete set of probes that an object subscribes to."""
        if self._closed:
            return
        now, wall = self._clock.time(), self._wall()
        wanted: dict[Head, dict[Probe, None]] = {}
        for each in subscriptions:
            wanted.setdefault(each.head, {})[each.probe] = None
        heads = dict.fromkeys((*wanted, *self._heads.pop(subscriber, ())))
        for head in heads:
            self._actor(head).sync(subscriber, tuple(wanted.get(head, ())), now, wall)
        if wanted:
            self._heads[subscriber] = tuple(wanted)
        for head in heads:
            if (actor := self._actors.get(head)) is not None:  # else one before let it end
                self._update(actor)

    def submit(self, subscriber: Subscriber, commands: tuple[HeadCommand, ...]) -> None:
        """Carry out commands, each once however often it is submitted."""
        if self._closed:
            return
        now, wall = self._clock.time(), self._wall()
        for each in commands:
            actor, command = self._actor(each.head), each.command
            expires_at = now + (command.deadline - wall).total_seconds()
            pending = PendingCommand(subscriber, command, expires_at)
            self._enqueue(actor.add_command(pending, now, wall))
            self._update(actor)

    async def leave(self, controller: str) -> None:
        """End the subscriptions and commands of this controller; those of others continue."""
        self._handles.pop(controller, None)
        tasks = [actor.task for actor in self._actors.values() if actor.task is not None]
        for actor in list(self._actors.values()):
            request = actor.under_way
            actor.drop_commands(controller, self._clock.time())
            theirs = isinstance(request, PendingCommand) and request.of(controller)
            if theirs and actor.task is not None:
                actor.task.cancel()
            self._update(actor)
        for subscriber in [each for each in self._heads if each.controller == controller]:
            self.sync(subscriber, ())
        cancelled = [task for task in tasks if task.cancelling()]
        await asyncio.gather(*cancelled, return_exceptions=True)

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """Return the observation of the probe; None if it has no subscriber."""
        actor = self._actors.get(head)
        return None if actor is None else actor.observation(probe)

    def outcome(self, head: Head, command_id: CommandId) -> CommandOutcome | None:
        """Return the outcome of a command; None while it is open, unknown or forgotten."""
        actor = self._actors.get(head)
        return None if actor is None else actor.outcome(command_id)

    def _actor(self, head: Head) -> HeadActor:
        actor = self._actors.get(head)
        if actor is None:
            actor = self._actors[head] = HeadActor(head, self._metrics)
        return actor

    def _enqueue(self, subscribers: Iterable[Subscriber]) -> None:
        for controller, key in list(subscribers):
            handle = self._handles.get(controller)
            if handle is not None:
                handle.enqueue(key)

    # Which head gets the next request, and when. There is no task for each actor: a heap of due
    # times and `RequestSlots` choose the next one, and a task lives as long as its request.

    def _update(self, actor: HeadActor) -> None:
        """Schedule an actor anew after a change; end it if it has nothing left to do."""
        if actor.closed or self._closed:
            return
        if actor.idle:
            self._end(actor)
            return
        now = self._clock.time() + CLOCK_RESOLUTION
        next_due = actor.next_due()
        if actor.task is None and next_due <= now:
            actor.queued = True
            self._slots.enqueue(actor, actor.responsiveness, urgent=actor.urgent(now))
            next_due = actor.next_due()  # it may have started
        waits = actor.task is not None or actor.queued
        when = min(actor.next_deadline(), math.inf if waits else next_due)
        if when == math.inf:
            self._due.discard(actor)
        else:
            self._due.set(actor, when)

    def _on_due(self, actor: HeadActor, _due: float) -> None:
        self._enqueue(actor.expire(self._clock.time() + CLOCK_RESOLUTION))
        self._update(actor)

    def _start(self, actor: HeadActor, responsiveness: Responsiveness) -> bool:
        """Start a due request in a slot; return False if none is due any more."""
        actor.queued = False
        request = actor.next_request(self._clock.time() + CLOCK_RESOLUTION)
        if request is not None:
            actor.under_way = request
            actor.task = asyncio.create_task(self._attempt(actor, request))
            self._tasks.add(actor.task)
            # a task that is cancelled before its first step has no `finally`
            actor.task.add_done_callback(partial(self._on_done, actor, responsiveness))
        self._update(actor)
        return request is not None

    def _attempt(
        self, actor: HeadActor, request: PendingCommand | Probe
    ) -> Coroutine[Any, Any, None]:
        if isinstance(request, PendingCommand):
            return self._handle_command(actor, request)
        # as of now: a command that is submitted before the first step invalidates the answer
        state = actor.probes[request]
        return self._handle_probe(actor, request, state, state.generation)

    def _on_done(
        self, actor: HeadActor, responsiveness: Responsiveness, task: asyncio.Task[None]
    ) -> None:
        self._tasks.discard(task)
        actor.task = actor.under_way = None
        self._slots.release(responsiveness)
        self._update(actor)

    def _end(self, actor: HeadActor) -> None:
        actor.closed = True
        self._due.discard(actor)
        self._slots.discard(actor)
        del self._actors[actor.head]
        if actor.task is not None:
            actor.task.cancel()

    # One attempt of a probe or a command, and what it changes.

    async def _handle_probe(
        self, actor: HeadActor, probe: Probe, state: ProbeState, generation: int
    ) -> None:
        if actor.probes.get(probe) is not state:
            return
        began = self._wall()
        state.requested_at = self._clock.time()
        response = await self._sender.send(actor, probe)
        if actor.closed:
            return
        now = self._clock.time()
        if isinstance(response, DashboardError):
            self._record_failure(actor, [state], began, response)
        else:
            self._record_response(actor, usable=True)
            counts = state.generation == generation
            if counts and state.record_value(response, began, now):
                self._enqueue(state.subscribers)
        if actor.probes.get(probe) is state:
            actor.schedule(probe, state.next_due(now))

    async def _handle_command(self, actor: HeadActor, pending: PendingCommand) -> None:
        command, began = pending.command, self._wall()
        states = [state for probe in command.invalidates if (state := actor.probes.get(probe))]
        response = await self._sender.send(actor, command, self._fence)
        if actor.closed:
            return
        if isinstance(response, DashboardError) and not isinstance(response, RefusedByRay):
            pending.failures += 1
            if isinstance(response, NotFinished) and command.asks_often:
                pending.failures = min(pending.failures, _POLLS)
            pending.error = str(response)
            if isinstance(response, NotFinished):
                self._record_response(actor, usable=True)
            elif not isinstance(response, FenceClosed):
                self._record_failure(actor, states, began, response)
            self._enqueue(actor.retry(pending, self._clock.time()))
            return
        self._record_response(actor, usable=True)
        for state in states:
            if state.failures.end():
                self._enqueue(state.subscribers)
        self._enqueue(actor.finish(pending, _outcome(response), self._clock.time()))

    def _record_failure(
        self, actor: HeadActor, states: list[ProbeState], began: datetime, error: DashboardError
    ) -> None:
        sentence = str(error)
        if isinstance(error, NotAuthorized):
            actor.client = None  # the token may have changed
        if isinstance(error, NoResponse):
            stretch = 1 + BACKOFF.jitter * self._rng.random()
            if actor.record_silence(began, sentence, self._clock.time(), stretch):
                _log.warning("dashboard.failing", head=str(actor.head), error=sentence)
                self._enqueue(actor.subscribers)
        else:
            self._record_response(actor, usable=False)
        for state in states:
            if state.failures.add(began, sentence):
                self._enqueue(state.subscribers)

    def _record_response(self, actor: HeadActor, *, usable: bool) -> None:
        if actor.record_response(usable=usable):
            _log.info("dashboard.answers_again", head=str(actor.head))
            self._enqueue(actor.subscribers)


def _outcome(response: CommandValue | RefusedByRay) -> CommandOutcome:
    if isinstance(response, RefusedByRay):
        return CommandRefused(str(response))
    return CommandDone(response)
