"""Decides which head is asked next, sends the requests, and shows what is waiting."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final, Protocol, TypeVar

import structlog

from controller.ray.dashboard.client import DashboardClient
from controller.ray.dashboard.commands import PendingCommand
from controller.ray.dashboard.head_actor import (
    CLOCK_RESOLUTION,
    HeadActor,
    RequestSlots,
    Responsiveness,
)
from controller.ray.dashboard.metrics import DashboardMetrics
from controller.ray.dashboard.probe_state import ProbeState
from controller.ray.dashboard.probes import Probe, ProbeValue
from controller.ray.dashboard.responses import JobInfo
from controller.ray.dashboard.values import (
    DashboardError,
    FenceClosed,
    Head,
    NoResponse,
    NotFinished,
    RefusedByRay,
    Subscriber,
    UnusableResponse,
)
from controller.runtime import debug
from controller.runtime.election import Fence
from informers import Clock
from workqueue import DelayQueue

# Decides which head gets the next request, and when.
#
# There is no task for each actor: a heap of due times and `RequestSlots` choose the next one, and a
# task lives as long as its request.

CONCURRENCY: Final = 128
"""Maximum requests to dashboards in flight at the same time."""

RATE: Final = 250.0
BURST: Final = 250
"""Requests a second of all actors together, and how many may exceed that rate."""


class ActorScheduler:
    """Runs the requests of all actors.

    Args:
        clock: the running loop.
        handle: carries out one request of an actor.
        enqueue: called with the objects whose commands have expired.
        on_end: called with an actor that has neither probes nor commands left.
    """

    def __init__(
        self,
        clock: Clock,
        *,
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
            concurrency=CONCURRENCY,
            rate=RATE,
            burst=BURST,
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
        clock: the running loop.
        metrics: records each request.
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


@dataclass(frozen=True, slots=True)
class _Subject:
    """One probe of one head."""

    actor: HeadActor
    probe: Probe
    state: ProbeState


def probe_listing(
    actors: Iterable[HeadActor], now: datetime
) -> debug.BoundedList[debug.ProbeEntry]:
    """Return all probes: failing ones first, then those with the oldest answer."""
    found = (
        _Subject(actor, probe, state) for actor in actors for probe, state in actor.probes.items()
    )
    return debug.listing(found, lambda subject: _shown(subject, now), rank=_rank)


def _rank(item: debug.ProbeEntry) -> tuple[int, float]:
    return -item.failures, float("-inf") if item.answered is None else -item.answered


def _shown(subject: _Subject, now: datetime) -> debug.ProbeEntry:
    actor, state = subject.actor, subject.state
    streak = max(state.failures, actor.silence, key=lambda each: each.length)
    seen = state.observation(actor.silence)
    answered = None if seen.last_success is None else (now - seen.last_success).total_seconds()
    return debug.ProbeEntry(
        dashboard=str(actor.head),
        probe=subject.probe.name,
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
