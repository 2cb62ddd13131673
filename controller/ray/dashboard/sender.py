"""Sends one request to one head, within its time limits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, Protocol, TypeVar

import structlog

from controller.ray.dashboard.client import DashboardClient
from controller.ray.dashboard.head_actor import HeadActor
from controller.ray.dashboard.metrics import DashboardMetrics
from controller.ray.dashboard.slots import Responsiveness
from controller.ray.dashboard.values import (
    DashboardError,
    FenceClosed,
    Head,
    NoResponse,
    NotFinished,
    RefusedByRay,
    UnusableResponse,
)
from controller.runtime.election import Fence
from informers import Clock

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
