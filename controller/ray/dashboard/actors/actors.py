"""The dashboard actors of one process: one for each head incarnation.

Each controller submits subscriptions and commands through a handle of its own; its keys are
enqueued when there is something new to observe.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from controller.ray.dashboard.actors.controller import ControllerDashboards
from controller.ray.dashboard.actors.handler import RequestHandler
from controller.ray.dashboard.actors.head_actor import HeadActor
from controller.ray.dashboard.actors.scheduler import ActorScheduler
from controller.ray.dashboard.actors.sender import RequestSender
from controller.ray.dashboard.actors.snapshot import probe_listing
from controller.ray.dashboard.commands.pending import PendingCommand
from controller.ray.dashboard.metrics import NO_METRICS, DashboardStatistics
from controller.ray.dashboard.settings import DashboardSettings
from controller.runtime.leaderelection.election import AlwaysLeader

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import datetime

    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.commands.command import CommandOutcome, HeadCommand
    from controller.ray.dashboard.commands.pending import CommandId
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.metrics import RequestMetrics
    from controller.ray.dashboard.probes.observation import ProbeObservation
    from controller.ray.dashboard.probes.probe import Probe, ProbeSubscription
    from controller.ray.dashboard.subscriber import Subscriber
    from controller.runtime import debug
    from controller.runtime.leaderelection.election import Fence
    from informers import Clock

_Target: TypeAlias = "tuple[Head, Probe]"

CONCURRENCY = 128
"""Maximum requests to dashboards in flight at the same time."""


class DashboardActors:
    """The actors of one process, shared by all controllers of Ray kinds.

    Use them within one running event loop, and close them after the controllers have ended.

    Args:
        connect: creates the client of a head; may read its token. Raises `DashboardError`.
        clock: the running loop.
        wall: the time of day in UTC.
        rng: source of jitter.
        fence: commands are sent only while it is open; None stands for one that always is.
        concurrency: maximum requests in flight.
        settings: intervals, time limits and thresholds.
        metrics: records each request and each command.
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
        self._clock = clock
        self._wall = wall
        self._settings = settings or DashboardSettings()
        self._metrics = metrics
        self._handles: dict[str, ControllerDashboards] = {}
        self._actors: dict[Head, HeadActor] = {}
        self._subscriptions: dict[Subscriber, tuple[_Target, ...]] = {}
        self._sender = RequestSender(connect, clock=clock, settings=self._settings, metrics=metrics)
        handler = RequestHandler(
            self._sender,
            clock=clock,
            wall=wall,
            rng=rng,
            fence=AlwaysLeader() if fence is None else fence,
            settings=self._settings,
            enqueue=self._enqueue,
        )
        self._scheduler = ActorScheduler(
            clock,
            concurrency=concurrency,
            settings=self._settings,
            handle=handler.handle,
            enqueue=self._enqueue,
            on_end=self._forget,
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
        """Cancel all requests and close the clients."""
        self._closed = True
        await self._scheduler.aclose()
        self._actors.clear()
        self._subscriptions.clear()

    def statistics(self) -> DashboardStatistics:
        """Return the present numbers."""
        actors = self._actors.values()
        return DashboardStatistics(
            actors=len(actors),
            failing=sum(actor.failing for actor in actors),
            probes=sum(len(actor.probes) for actor in actors),
            commands=sum(len(actor.commands) for actor in actors),
            waiting=self._scheduler.waiting,
            in_flight={each.value: busy for each, busy in self._scheduler.in_flight.items()},
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
        intervals = _shortest_intervals(subscriptions, self._settings.interval)
        former = self._subscriptions.get(subscriber, ())
        for (head, probe), interval in intervals.items():
            self._actor(head).probes.subscribe(probe, subscriber, interval, now, wall)
        for head, probe in former:
            if (head, probe) not in intervals:
                self._actors[head].unsubscribe(probe, subscriber, now)
        if intervals:
            self._subscriptions[subscriber] = tuple(intervals)
        else:
            self._subscriptions.pop(subscriber, None)
        for head in dict.fromkeys(head for head, _ in (*intervals, *former)):
            self._scheduler.update(self._actors[head])

    def submit(self, subscriber: Subscriber, commands: tuple[HeadCommand, ...]) -> None:
        """Carry out commands, each once however often it is submitted."""
        if self._closed:
            return
        now, wall = self._clock.time(), self._wall()
        for each in commands:
            actor, command = self._actor(each.head), each.command
            expires_at = now + (command.deadline - wall).total_seconds()
            pending = PendingCommand(subscriber, command, expires_at)
            if pending.id not in actor.commands:
                self._enqueue(actor.add_command(pending, now, wall))
            self._scheduler.update(actor)

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
            self._scheduler.update(actor)
        for subscriber in [each for each in self._subscriptions if each.controller == controller]:
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
        return None if actor is None else actor.commands.outcome(command_id)

    def _actor(self, head: Head) -> HeadActor:
        actor = self._actors.get(head)
        if actor is None:
            actor = self._actors[head] = HeadActor(head, self._settings, self._metrics)
        return actor

    def _forget(self, actor: HeadActor) -> None:
        del self._actors[actor.head]

    def _enqueue(self, subscribers: Iterable[Subscriber]) -> None:
        for controller, key in list(subscribers):
            handle = self._handles.get(controller)
            if handle is not None:
                handle.enqueue(key)


def _shortest_intervals(
    subscriptions: tuple[ProbeSubscription, ...], default: float
) -> dict[_Target, float]:
    """Return the interval of each probe, the shortest if a probe is named twice."""
    found: dict[_Target, float] = {}
    for each in subscriptions:
        target = each.head, each.probe
        interval = default if each.interval is None else each.interval
        found[target] = min(interval, found.get(target, interval))
    return found
