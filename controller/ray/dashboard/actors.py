"""All dashboards: one actor per head incarnation, one scheduler for all of them.

There is no task per actor: a heap knows whose time has come, `Slots` whose turn it is, and each
request is a task that ends with its answer. Workers only leave interests and commands here; what
is found wakes their keys when it is new (DESIGN 4.5).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from controller.ray.dashboard.actor import Actor
from controller.ray.dashboard.commands import Done, Refused
from controller.ray.dashboard.errors import (
    DashboardError,
    NoAnswer,
    NotAuthorized,
    RefusedByRay,
    UnexpectedAnswer,
)
from controller.ray.dashboard.pending import Pending
from controller.ray.dashboard.probes import JobProbe
from controller.ray.dashboard.requests import carry_out, name_of, probe_with
from controller.ray.dashboard.settings import DashboardSettings
from controller.ray.dashboard.slots import TICK, Slots, Trust
from controller.ray.dashboard.statistics import NO_METRICS, DashboardStatistics
from workqueue import Delays

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import datetime

    from controller.ray.dashboard.client import DashboardClient
    from controller.ray.dashboard.commands import Order, Outcome
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.observation import Observation
    from controller.ray.dashboard.probes import Interest, Probe
    from controller.ray.dashboard.results import CommandValue, ProbeValue
    from controller.ray.dashboard.statistics import Metrics
    from controller.ray.dashboard.watched import Watched
    from informers import Clock

_log = structlog.stdlib.get_logger("manta.dashboard")

CONCURRENCY = 128
"""Requests to dashboards under way at most."""


class DashboardActors:
    """`Outside` of the kinds that deal with Ray, and the `Dashboards` that they read.

    To be used within one running event loop.

    Args:
        connect: makes the client of a head; may read its token. Raises `DashboardError`.
        clock: the loop.
        wall: the time of day in UTC.
        rng: for jitter.
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
        concurrency: int = CONCURRENCY,
        settings: DashboardSettings | None = None,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._settings = settings or DashboardSettings()
        self._metrics = metrics
        self._wake_key: Callable[[str], None] = _nobody
        self._actors: dict[Head, Actor] = {}
        self._interests: dict[str, tuple[Interest, ...]] = {}
        self._failing: set[Head] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._due: Delays[Actor] = Delays(clock, self._released)
        self._slots: Slots[Actor] = Slots(
            clock,
            concurrency=concurrency,
            rate=self._settings.rate,
            burst=self._settings.burst,
            start=self._start,
        )
        self._closed = False

    # What a controller does.

    def attach(self, wake: Callable[[str], None]) -> None:
        """Learn whom to tell; see `Outside.attach`."""
        self._wake_key = wake

    def sync(self, key: str, interests: tuple[Interest, ...]) -> None:
        """The complete set of probes that an object wants from now on."""
        if self._closed:
            return
        now = self._clock.time()
        former, wanted = set(self._interests.get(key, ())), set(interests)
        for interest in wanted - former:
            self._actor(interest.head).watch(interest.probe, key, now, self._wall())
        for interest in wanted & former:
            self._actors[interest.head].hasten(interest.probe, now)
        for interest in former - wanted:
            self._actors[interest.head].unwatch(interest.probe, key, now)
        if wanted:
            self._interests[key] = tuple(wanted)
        else:
            self._interests.pop(key, None)
        for head in {interest.head for interest in wanted | former}:
            self._settle(self._actors[head])

    def hand_over(self, key: str, commands: tuple[Order, ...]) -> None:
        """Carry out commands; those that are known already only once.

        The outcome can be read while the object has an interest in the same head.
        """
        if self._closed:
            return
        now, wall = self._clock.time(), self._wall()
        for order in commands:
            actor, command = self._actor(order.head), order.command
            if not actor.knows(command.id):
                expires_at = now + (command.deadline - wall).total_seconds()
                self._wake(actor.order(Pending(key, command, expires_at), now, wall))
            self._settle(actor)

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

    def observation(self, head: Head, probe: Probe) -> Observation | None:
        """What the probe has found; None if nobody is interested in it."""
        actor = self._actors.get(head)
        watched = None if actor is None else actor.watched(probe)
        return None if actor is None or watched is None else watched.observation(actor.silence)

    def outcome(self, head: Head, command_id: str) -> Outcome | None:
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

    def _actor(self, head: Head) -> Actor:
        actor = self._actors.get(head)
        if actor is None:
            actor = self._actors[head] = Actor(head, self._settings, self._metrics)
        return actor

    def _settle(self, actor: Actor) -> None:
        """After any change: end the actor, queue it, or have it called when its time comes."""
        if actor.closed or self._closed:
            return
        if actor.idle:
            self._end(actor)
            return
        now = self._clock.time() + TICK
        if actor.task is None and actor.next_due() <= now:
            actor.queued = True
            self._slots.ask(actor, actor.trust, urgent=actor.urgent(now))
        waits = actor.task is not None or actor.queued
        when = min(actor.next_deadline(), float("inf") if waits else actor.next_due())
        if when == float("inf"):
            self._due.discard(actor)
        else:
            self._due.set(actor, when)

    def _released(self, actor: Actor, _due: float) -> None:
        self._wake(actor.expire(self._clock.time() + TICK))
        self._settle(actor)

    def _start(self, actor: Actor, trust: Trust) -> bool:
        actor.queued = False
        subject = actor.take(self._clock.time() + TICK)
        if subject is None:
            self._settle(actor)
            return False
        actor.task = asyncio.create_task(self._serve(actor, subject, trust))
        self._tasks.add(actor.task)
        actor.task.add_done_callback(self._tasks.discard)
        self._settle(actor)
        return True

    def _end(self, actor: Actor) -> None:
        actor.closed = True
        del self._actors[actor.head]
        self._failing.discard(actor.head)
        self._due.discard(actor)
        self._slots.withdraw(actor)
        if actor.task is not None:
            actor.task.cancel()

    # One request.

    async def _serve(self, actor: Actor, subject: Pending | Probe, trust: Trust) -> None:
        try:
            if isinstance(subject, Pending):
                await self._command(actor, subject)
            else:
                await self._probe(actor, subject)
        finally:
            actor.task = None
            self._slots.release(trust)
        self._settle(actor)

    async def _probe(self, actor: Actor, probe: Probe) -> None:
        watched = actor.watched(probe)
        if watched is None:
            return
        began, generation = self._wall(), watched.generation
        watched.asked = self._clock.time()
        answer = await self._ask(actor, name_of(probe), lambda to: probe_with(to, probe))
        if actor.closed:
            return
        now = self._clock.time()
        if isinstance(answer, DashboardError):
            self._failed(actor, watched, began, answer)
        else:
            self._answered(actor, usable=True)
            counts = watched.generation == generation
            if counts and watched.answered(answer, began, now):
                self._wake(watched.keys)
        actor.ask_again(probe, watched, now)

    async def _command(self, actor: Actor, pending: Pending) -> None:
        command, began = pending.command, self._wall()
        watched = actor.watched(JobProbe(command.job_id))
        answer = await self._ask(actor, name_of(command), lambda to: carry_out(to, command))
        if actor.closed:
            return
        if isinstance(answer, DashboardError) and not isinstance(answer, RefusedByRay):
            pending.failures += 1
            pending.error = str(answer)
            self._failed(actor, watched, began, answer)
            woken = actor.try_again(pending, self._clock.time())
        else:
            self._answered(actor, usable=True)
            if watched is not None and watched.run.end():
                self._wake(watched.keys)
            woken = actor.finish(pending, _outcome(answer), self._clock.time())
        self._wake(woken)

    async def _ask(
        self,
        actor: Actor,
        request: str,
        call: Callable[[DashboardClient], Awaitable[ProbeValue | CommandValue]],
    ) -> Any:
        """The answer, or the error in place of one."""
        started = self._clock.time()
        try:
            client = await self._client(actor)
            async with asyncio.timeout(self._patience(actor)):
                answer = await call(client)
            result = "answered"
        except TimeoutError:
            answer, result = NoAnswer(f"{actor.head} does not answer"), "no_answer"
        except DashboardError as error:
            answer, result = error, _result(error)
        except (Exception, asyncio.CancelledError) as error:  # one oddity must not end an actor
            if _is_cancelled():
                raise
            _log.exception("dashboard.request_failed", head=str(actor.head), request=request)
            answer, result = UnexpectedAnswer(f"{type(error).__name__}: {error}"), "unusable"
        self._metrics.asked(request, result, self._clock.time() - started)
        return answer

    def _patience(self, actor: Actor) -> float | None:
        """Seconds for a request, None if the client's own limit is enough."""
        return self._settings.introduction if actor.trust is Trust.FRESH else None

    async def _client(self, actor: Actor) -> DashboardClient:
        if actor.client is None:
            limit = self._settings.connect_timeout
            try:
                async with asyncio.timeout(limit):
                    actor.client = await self._connect(actor.head)
            except TimeoutError:
                raise NoAnswer(f"no connection to {actor.head} in {limit:g} s") from None
        return actor.client

    # What became of it.

    def _failed(
        self, actor: Actor, watched: Watched | None, began: datetime, error: DashboardError
    ) -> None:
        sentence = str(error)
        if isinstance(error, NotAuthorized):
            actor.client = None  # the token may be another one by now
        if isinstance(error, NoAnswer):
            stretch = 1 + self._settings.backoff.jitter * self._rng.random()
            if actor.note_silence(began, sentence, self._clock.time(), stretch):
                self._failing.add(actor.head)
                _log.warning("dashboard.failing", head=str(actor.head), error=sentence)
                self._wake(actor.everybody())
        else:
            self._answered(actor, usable=False)
        if watched is not None and watched.run.failed(began, sentence):
            self._wake(watched.keys)

    def _answered(self, actor: Actor, *, usable: bool) -> None:
        if actor.note_answer(usable=usable):
            self._failing.discard(actor.head)
            _log.info("dashboard.answers_again", head=str(actor.head))
            self._wake(actor.everybody())

    def _wake(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self._wake_key(key)


def _outcome(answer: CommandValue | RefusedByRay) -> Outcome:
    return Refused(str(answer)) if isinstance(answer, RefusedByRay) else Done(answer)


def _result(error: DashboardError) -> str:
    if isinstance(error, RefusedByRay):
        return "refused"
    return "no_answer" if isinstance(error, NoAnswer) else "unusable"


def _is_cancelled() -> bool:
    """Whether this task is to end, rather than something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _nobody(_key: str) -> None:
    """Wakes nobody: nothing is attached yet."""
