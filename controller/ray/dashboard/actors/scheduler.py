"""Decides which head gets the next request, and when.

There is no task for each actor: a heap of due times and `RequestSlots` choose the next one, and a
task lives as long as its request.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from controller.ray.dashboard.actors.slots import CLOCK_RESOLUTION, RequestSlots
from workqueue import DelayQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from controller.ray.dashboard.actors.head_actor import HeadActor
    from controller.ray.dashboard.actors.slots import Responsiveness
    from controller.ray.dashboard.commands.pending import PendingCommand
    from controller.ray.dashboard.probes.probe import Probe
    from controller.ray.dashboard.settings import DashboardSettings
    from controller.ray.dashboard.subscriber import Subscriber
    from informers import Clock


class ActorScheduler:
    """Runs the requests of all actors.

    Args:
        clock: the running loop.
        concurrency: maximum requests in flight.
        settings: rate and burst.
        handle: carries out one request of an actor.
        enqueue: called with the objects whose commands have expired.
        on_end: called with an actor that has neither probes nor commands left.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        concurrency: int,
        settings: DashboardSettings,
        handle: Callable[[HeadActor, PendingCommand | Probe], Awaitable[None]],
        enqueue: Callable[[Iterable[Subscriber]], None],
        on_end: Callable[[HeadActor], None],
    ) -> None:
        self._clock = clock
        self._handle = handle
        self._enqueue = enqueue
        self._on_end = on_end
        self._tasks: set[asyncio.Task[None]] = set()
        self._due: DelayQueue[HeadActor] = DelayQueue(clock, self._on_due)
        self._slots: RequestSlots[HeadActor] = RequestSlots(
            clock,
            concurrency=concurrency,
            rate=settings.rate,
            burst=settings.burst,
            start=self._start,
        )
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of actors that wait for a slot."""
        return self._slots.waiting

    @property
    def in_flight(self) -> dict[Responsiveness, int]:
        """The number of requests in flight, by the result of the head's previous request."""
        return self._slots.busy

    def update(self, actor: HeadActor) -> None:
        """Schedule an actor anew after a change; end it if it has nothing left to do."""
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
        when = min(actor.commands.next_deadline(), math.inf if waits else actor.next_due())
        if when == math.inf:
            self._due.discard(actor)
        else:
            self._due.set(actor, when)

    async def aclose(self) -> None:
        """Cancel all requests and start no more."""
        self._closed = True
        self._due.clear()
        self._slots.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_due(self, actor: HeadActor, _due: float) -> None:
        self._enqueue(actor.expire(self._clock.time() + CLOCK_RESOLUTION))
        self.update(actor)

    def _start(self, actor: HeadActor, responsiveness: Responsiveness) -> bool:
        """Start a due request in a slot; return False if none is due any more."""
        actor.queued = False
        request = actor.next_request(self._clock.time() + CLOCK_RESOLUTION)
        if request is not None:
            actor.under_way = request
            actor.task = asyncio.create_task(self._run(actor, request, responsiveness))
            self._tasks.add(actor.task)
            actor.task.add_done_callback(self._tasks.discard)
        self.update(actor)
        return request is not None

    async def _run(
        self, actor: HeadActor, request: PendingCommand | Probe, responsiveness: Responsiveness
    ) -> None:
        try:
            await self._handle(actor, request)
        finally:
            actor.task = actor.under_way = None
            self._slots.release(responsiveness)
            self.update(actor)

    def _end(self, actor: HeadActor) -> None:
        actor.closed = True
        self._due.discard(actor)
        self._slots.discard(actor)
        self._on_end(actor)
        if actor.task is not None:
            actor.task.cancel()
