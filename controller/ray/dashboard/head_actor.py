"""The probes and commands of one head incarnation, their results, and how each request is sent.

`HeadActor` is bookkeeping only: it creates no task, sets no timer and sends no request.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar

import structlog

from controller.ray.dashboard import (
    BACKOFF,
    DashboardError,
    FenceClosed,
    Head,
    NoResponse,
    NotFinished,
    RefusedByRay,
    Subscriber,
    UnusableResponse,
)
from controller.ray.dashboard.client import DashboardClient
from controller.ray.dashboard.commands import (
    CommandExpired,
    CommandId,
    CommandOutcome,
    PendingCommand,
)
from controller.ray.dashboard.metrics import DashboardMetrics
from controller.ray.dashboard.probes import (
    FailureStreak,
    Probe,
    ProbeObservation,
    ProbeState,
    ProbeValue,
)
from controller.ray.dashboard.responses import JobInfo
from controller.ray.dashboard.slots import Responsiveness
from controller.runtime import debug
from controller.runtime.election import Fence
from informers import Clock


class _Ended(NamedTuple):
    """What is kept of a command that has ended; `reverts` is its name if it reverts others."""

    subscriber: Subscriber
    reverts: str
    outcome: CommandOutcome


class HeadActor:
    """One head incarnation.

    It has at most one request in flight, so that no response can be older than a command that ended
    before it. Methods that end commands return the objects to enqueue. Times are in seconds of the
    loop's clock.

    Attributes:
        subscribers: the probes of each object that subscribes to any.
        client: the client of the dashboard; None until it is needed.
        task: task of the request in flight.
        under_way: the command or probe of that request.
        silence: consecutive requests that got no response.
        responsiveness: result of the last request.
        rests_until: time before which no request is sent.
        queued: whether it waits for a slot.
        closed: whether its last subscription and its last command have ended.
    """

    def __init__(self, head: Head, metrics: DashboardMetrics) -> None:
        self._metrics = metrics
        self._ended: dict[CommandId, _Ended] = {}
        self._invalidating: Counter[Probe] = Counter()
        self.head = head
        self.subscribers: dict[Subscriber, Sequence[Probe]] = {}
        self.probes: dict[Probe, ProbeState] = {}
        self.commands: dict[CommandId, PendingCommand] = {}
        self.client: DashboardClient | None = None
        self.task: asyncio.Task[None] | None = None
        self.under_way: PendingCommand | Probe | None = None
        self.silence = FailureStreak()
        self.responsiveness = Responsiveness.UNKNOWN
        self.rests_until = -math.inf
        self.queued = False
        self.closed = False

    @property
    def idle(self) -> bool:
        """True if it has neither a probe nor an open command."""
        return not self.probes and not self.commands

    def observation(self, probe: Probe) -> ProbeObservation | None:
        """Return the observation of the probe; None if it has no subscriber."""
        state = self.probes.get(probe)
        return None if state is None else state.observation(self.silence)

    def outcome(self, command_id: CommandId) -> CommandOutcome | None:
        """Return the outcome of a command; None while it is open, unknown or forgotten."""
        ended = self._ended.get(command_id)
        return None if ended is None else ended.outcome

    # Subscriptions and commands.

    def sync(
        self, subscriber: Subscriber, probes: Sequence[Probe], now: float, wall: datetime
    ) -> None:
        """Set the probes of an object, whose next requests come sooner.

        Without any, the outcomes of its commands are forgotten.
        """
        for probe in probes:
            state = self.probes.get(probe)
            if state is None:
                state = self.probes[probe] = ProbeState(now, wall, probe.longest_interval)
                self.schedule(probe, now)
            state.subscribers[subscriber] = None
            state.expedite(now)
        for probe in self.subscribers.get(subscriber, ()):
            if probe not in probes:
                del self.probes[probe].subscribers[subscriber]
                if not self.probes[probe].subscribers:
                    del self.probes[probe]
        if probes:
            self.subscribers[subscriber] = probes
        elif self.subscribers.pop(subscriber, None) is not None:
            self._forget(subscriber, now)

    def add_command(self, pending: PendingCommand, now: float, wall: datetime) -> list[Subscriber]:
        """Open a command unless it is known; end those that it supersedes.

        If it reverts older commands of its name, their outcomes are forgotten.
        """
        command, ended = pending.command, list[Subscriber]()
        if pending.id in self.commands or pending.id in self._ended:
            return ended
        for each in [each for each in self.commands.values() if command.supersedes(each.command)]:
            ended += self._give_up(each, f"superseded by a {command.name} command", now)
        if command.reverts:
            self._drop(each for each, old in self._ended.items() if old.reverts == command.name)
        pending.due = now
        self.commands[pending.id] = pending
        for probe in command.invalidates:
            self._invalidating[probe] += 1
            if state := self.probes.get(probe):
                state.invalidate(wall)
                state.due = math.inf
        return ended

    def drop_commands(self, controller: str, now: float) -> None:
        """End the open commands of a controller without an outcome."""
        for pending in [each for each in self.commands.values() if each.of(controller)]:
            self._close(pending, now)

    # What to do when.

    def next_due(self) -> float:
        """Return the time of the next request; infinite if there is none."""
        return max(min(self._next_command(), self._next_probe()), self.rests_until)

    def next_deadline(self) -> float:
        """Return the time at which the next command expires, apart from one in flight."""
        waiting = (each for each in self.commands.values() if each.due < math.inf)
        return min((each.expires_at for each in waiting), default=math.inf)

    def urgent(self, now: float) -> bool:
        """Return whether a command is due."""
        return self._next_command() <= now

    def next_request(self, now: float) -> PendingCommand | Probe | None:
        """Return the request that is due now: commands come before probes."""
        if self._next_command() <= now:
            pending = min(self.commands.values(), key=lambda each: each.due)
            pending.due = math.inf
            return pending
        if self._next_probe() <= now:
            probe, state = min(self.probes.items(), key=lambda item: item[1].due)
            state.due = math.inf
            return probe
        return None

    def schedule(self, probe: Probe, when: float) -> None:
        """Send a probe at this time, unless an open command invalidates it."""
        if not self._invalidating[probe]:
            self.probes[probe].due = when

    def expire(self, now: float) -> list[Subscriber]:
        """End the commands whose deadline has passed, apart from one in flight."""
        waiting = [each for each in self.commands.values() if each.due < math.inf]
        late = sorted(
            (each for each in waiting if each.expires_at <= now), key=lambda each: each.expires_at
        )
        return [key for each in late for key in self._expire(each, now)]

    # How a request went.

    def retry(self, pending: PendingCommand, now: float) -> list[Subscriber]:
        """Repeat a command without a definite response later, or end it."""
        if pending.given_up or pending.expires_at <= now:
            return self._expire(pending, now)
        pending.due = now + BACKOFF.delay(pending.failures - 1)
        return []

    def finish(
        self, pending: PendingCommand, outcome: CommandOutcome, now: float
    ) -> list[Subscriber]:
        """End a command. An object that still subscribes can read the outcome.

        The expiry of a command that reverts others is not kept, so that it can be submitted again.
        """
        command, subscribed = pending.command, pending.subscriber in self.subscribers
        self._close(pending, now)
        if subscribed and not (command.reverts and isinstance(outcome, CommandExpired)):
            reverts = command.name if command.reverts else ""
            self._ended[pending.id] = _Ended(pending.subscriber, reverts, outcome)
        self._metrics.record_command(command.name, outcome.name)
        return [pending.subscriber] if subscribed else []

    def record_silence(self, began: datetime, error: str, now: float, stretch: float) -> bool:
        """Record a request without response; return whether the dashboard now counts as failing.

        No request is sent during the back-off, which is `stretch` times as long as usual.
        """
        decisive = self.silence.add(began, error)
        self.rests_until = now + BACKOFF.delay(self.silence.length - 1) * stretch
        self.responsiveness = Responsiveness.UNRESPONSIVE
        return decisive

    def record_response(self, *, usable: bool) -> bool:
        """Record a response; return whether the dashboard was failing until now.

        An unusable response to one probe is no success of the others: their streaks of failures
        continue.
        """
        self.responsiveness = Responsiveness.RESPONSIVE
        self.rests_until = -math.inf
        if not usable and self.silence.length:
            for state in self.probes.values():
                state.failures.extend(self.silence)
        return self.silence.end()

    def _next_command(self) -> float:
        return min((each.due for each in self.commands.values()), default=math.inf)

    def _next_probe(self) -> float:
        return min((each.due for each in self.probes.values()), default=math.inf)

    def _forget(self, subscriber: Subscriber, now: float) -> None:
        """Drop what is kept for an object without probes; give up what only it waits for."""
        self._drop(each for each, old in self._ended.items() if old.subscriber == subscriber)
        for pending in list(self.commands.values()):
            if pending.subscriber == subscriber:
                self._give_up(pending, "given up because no object waits for it any more", now)

    def _drop(self, command_ids: Iterable[CommandId]) -> None:
        for command_id in list(command_ids):
            del self._ended[command_id]

    def _give_up(self, pending: PendingCommand, reason: str, now: float) -> list[Subscriber]:
        """End a command, at once or with the attempt that is in flight."""
        pending.given_up = reason
        return self._expire(pending, now) if pending.due < math.inf else []

    def _expire(self, pending: PendingCommand, now: float) -> list[Subscriber]:
        return self.finish(pending, CommandExpired(pending.expiry_message), now)

    def _close(self, pending: PendingCommand, now: float) -> None:
        """Close a command, and send the probes at once that no other one invalidates."""
        del self.commands[pending.id]
        for probe in pending.command.invalidates:
            self._invalidating[probe] -= 1
            if not self._invalidating[probe]:
                del self._invalidating[probe]
                if probe in self.probes:
                    self.schedule(probe, now)


# Sends one request to one head, within its time limits.

CONNECT_TIMEOUT: Final = 10.0
"""Seconds for reading the token of a head."""

FIRST_REQUEST_TIMEOUT: Final = 2.0
"""Seconds for the first request to a head.

It is short, so that many new, unresponsive heads hold their slots only briefly.
"""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_log = structlog.stdlib.get_logger("manta.dashboard")


class HeadRequest(Protocol[T_co]):
    """The interface that probes and commands share."""

    name: ClassVar[str]

    async def send(self, client: DashboardClient) -> T_co:
        """Send it once. Raises `DashboardError`."""
        ...


class RequestSender:
    """Sends requests, and connects to a head before the first one.

    Args:
        connect: creates the client of a head; may read its token. Raises `DashboardError`.
    """

    def __init__(
        self,
        connect: Callable[[Head], Awaitable[DashboardClient]],
        *,
        clock: Clock,
        metrics: DashboardMetrics,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._metrics = metrics

    async def send(
        self, actor: HeadActor, request: HeadRequest[T], fence: Fence | None = None
    ) -> T | DashboardError:
        """Return the response, or the error that came instead.

        With a `fence` the request is sent only while the fence is open, and ends before it may
        close.
        """
        started = self._clock.time()
        try:
            client = await self._client(actor)
            async with asyncio.timeout(self._time_limit(actor, fence)):
                response: T | DashboardError = await request.send(client)
            result = "answered"
        except TimeoutError:
            response, result = NoResponse(f"{actor.head} does not answer"), "no_answer"
        except DashboardError as error:
            response, result = error, _result(error)
        except (Exception, asyncio.CancelledError) as error:  # no bug may stop an actor for ever
            if _is_cancelled():
                raise
            _log.exception("dashboard.request_failed", head=str(actor.head), request=request.name)
            response, result = UnusableResponse(f"{type(error).__name__}: {error}"), "unusable"
        self._metrics.record_request(request.name, result, self._clock.time() - started)
        return response

    def _time_limit(self, actor: HeadActor, fence: Fence | None) -> float | None:
        """Return the seconds for a request; None if the client's own limit suffices.

        Raises:
            FenceClosed: the request must not be sent.
        """
        limit = math.inf
        if actor.responsiveness is Responsiveness.UNKNOWN:
            limit = FIRST_REQUEST_TIMEOUT
        if fence is not None:
            if not fence.is_leader():
                raise FenceClosed("this process does not lead")
            limit = min(limit, fence.time_left())
        return None if math.isinf(limit) else limit

    async def _client(self, actor: HeadActor) -> DashboardClient:
        if actor.client is None:
            limit = CONNECT_TIMEOUT
            try:
                async with asyncio.timeout(limit):
                    actor.client = await self._connect(actor.head)
            except TimeoutError:
                raise NoResponse(f"no connection to {actor.head} in {limit:g} s") from None
        return actor.client


def _result(error: DashboardError) -> str:
    """Return the error's name as a label of metrics."""
    match error:
        case FenceClosed():
            return "not_sent"
        case RefusedByRay():
            return "refused"
        case NotFinished():
            return "unfinished"
        case NoResponse():
            return "no_answer"
        case _:
            return "unusable"


def _is_cancelled() -> bool:
    """Return whether this task is being cancelled, not only what it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# Lists the probes for the debug page.


def probe_listing(
    actors: Iterable[HeadActor], now: datetime
) -> debug.BoundedList[debug.ProbeEntry]:
    """Return all probes: failing ones first, then those with the oldest answer."""
    found = ((actor, probe) for actor in actors for probe in actor.probes)
    return debug.listing(
        found, lambda each: _shown(*each, each[0].probes[each[1]], now), rank=_rank
    )


def _rank(item: debug.ProbeEntry) -> tuple[int, float]:
    return -item.failures, float("-inf") if item.answered is None else -item.answered


def _shown(actor: HeadActor, probe: Probe, state: ProbeState, now: datetime) -> debug.ProbeEntry:
    streak = max(state.failures, actor.silence, key=lambda each: each.length)
    seen = state.observation(actor.silence)
    answered = None if seen.last_success is None else (now - seen.last_success).total_seconds()
    return debug.ProbeEntry(
        dashboard=str(actor.head),
        probe=probe.name,
        objects=[
            f"{each.controller} {each.key}" for each in list(state.subscribers)[: debug.LIMIT]
        ],
        answer=_answer(seen.value),
        answered=None if answered is None else round(answered, 3),
        changed=round((now - seen.since).total_seconds(), 3),
        failures=streak.length,
        cause=debug.cause(streak.error),
    )


def _answer(value: ProbeValue | None) -> str:
    if isinstance(value, JobInfo):
        return f"job {value.status.value}"
    return "" if value is None else type(value).__name__
