"""Sends an actor's due request, and records the response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from controller.ray.dashboard.commands.command import CommandDone, CommandRefused
from controller.ray.dashboard.commands.pending import PendingCommand
from controller.ray.dashboard.errors import (
    DashboardError,
    FenceClosed,
    NoResponse,
    NotAuthorized,
    NotFinished,
    RefusedByRay,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from controller.ray.dashboard.actors.head_actor import HeadActor
    from controller.ray.dashboard.actors.sender import RequestSender
    from controller.ray.dashboard.client.values import CommandValue
    from controller.ray.dashboard.commands.command import CommandOutcome
    from controller.ray.dashboard.probes.probe import Probe
    from controller.ray.dashboard.probes.state import ProbeState
    from controller.ray.dashboard.settings import DashboardSettings
    from controller.ray.dashboard.subscriber import Subscriber
    from controller.runtime.leaderelection.election import Fence
    from informers import Clock

_log = structlog.stdlib.get_logger("manta.dashboard")

_POLLS: Final = 3
"""The back-off of a command that Ray still works on grows no further than after these failures."""


class RequestHandler:
    """Carries out probes and commands, one attempt at a time.

    Args:
        sender: sends the requests.
        clock: the running loop.
        wall: the time of day in UTC.
        rng: source of jitter.
        fence: commands are sent only while it is open.
        settings: jitter.
        enqueue: called with the objects that have something new to observe.
    """

    def __init__(
        self,
        sender: RequestSender,
        *,
        clock: Clock,
        wall: Callable[[], datetime],
        rng: random.Random,
        fence: Fence,
        settings: DashboardSettings,
        enqueue: Callable[[Iterable[Subscriber]], None],
    ) -> None:
        self._sender = sender
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._fence = fence
        self._jitter = settings.backoff.jitter
        self._enqueue = enqueue

    async def handle(self, actor: HeadActor, request: PendingCommand | Probe) -> None:
        """Make one attempt and record its result in the actor."""
        if isinstance(request, PendingCommand):
            await self._handle_command(actor, request)
        else:
            await self._handle_probe(actor, request)

    async def _handle_probe(self, actor: HeadActor, probe: Probe) -> None:
        state = actor.probes.get(probe)
        if state is None:
            return
        began, generation = self._wall(), state.generation
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
        actor.probes.reschedule(probe, state, now)

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
            stretch = 1 + self._jitter * self._rng.random()
            if actor.record_silence(began, sentence, self._clock.time(), stretch):
                _log.warning("dashboard.failing", head=str(actor.head), error=sentence)
                self._enqueue(actor.probes.subscribers())
        else:
            self._record_response(actor, usable=False)
        for state in states:
            if state.failures.add(began, sentence):
                self._enqueue(state.subscribers)

    def _record_response(self, actor: HeadActor, *, usable: bool) -> None:
        if actor.record_response(usable=usable):
            _log.info("dashboard.answers_again", head=str(actor.head))
            self._enqueue(actor.probes.subscribers())


def _outcome(response: CommandValue | RefusedByRay) -> CommandOutcome:
    if isinstance(response, RefusedByRay):
        return CommandRefused(str(response))
    return CommandDone(response)
