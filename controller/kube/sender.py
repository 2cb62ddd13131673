"""Sends requests through a transport under the rules that all requests share.

In order: wait for the pause of the request's lane, take one of a bounded number of slots, send,
read the whole response within a time limit, and retry only if that is safe (NET-1): at most ten
attempts, after 429 or 5xx with `Retry-After`, and for reads also after a broken connection. A
request of a flow is not repeated, but for one repetition of a read: its key has a back-off of its
own. Only an attempt holds a slot; no wait does.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from controller.kube.errors import (
    NotSent,
    OutcomeUnknown,
    Paused,
    UnexpectedResponse,
    WriteUnconfirmed,
)
from controller.kube.limits import FairLimiter, Lane, RateLimiter, Slot, lane_of
from controller.kube.transport import (
    MAX_ATTEMPTS,
    MAX_BODY,
    MAX_LIST,
    MAX_RETRY_AFTER,
    NO_METRICS,
    RESET_DELAY,
    Chunks,
    ClientMetrics,
    Request,
    Response,
    Transport,
    excerpt,
    is_retryable,
    parse_status,
    read_body,
    retry_after,
    sleep_until,
)
from controller.kube.transport import RawResponse as RawAnswer
from informers import Clock

# Holds requests back after the server has asked to wait.
#
# A 429 or 503 with `Retry-After` concerns one of two things, and its body says which. If it is a
# `Status`, the handler of the resource wrote it: an admission webhook that is busy, a resource
# whose storage is starting. Then only the *lane* of that request waits: verb, resource and
# namespace. If it is anything else, a filter in front of all handlers wrote it (API Priority and
# Fairness, the limit of requests in flight, a server that is shutting down), or a proxy did. Then
# everything waits, but only briefly: these filters ask for a second or a few.
#
# The headers `X-Kubernetes-PF-FlowSchema-UID` and `-PriorityLevel-UID` do not distinguish the two:
# a real API server sets them in every answer, including that of a webhook.

MAX_GENERAL_PAUSE = 10.0
"""Maximum seconds that all requests wait.

Priority and Fairness asks a client for up to 32 when the server stays overloaded; after ten, a few
requests may test whether it still is.
"""

REFUSED_READS = 3
"""Number of resources with refused reads that pauses all requests.

Reads pass no admission, so no tenant can cause this: the server itself is overloaded, or a proxy
that answers in JSON.
"""

_STATUSES = frozenset({429, 503})
_end = attrgetter("end")


class Pause(Struct, frozen=True):
    """A wait until `end`, in the clock's time, and the server's message."""

    end: float
    reason: str = ""


class Pauses:
    """The pauses of one client. `MAX_RETRY_AFTER` bounds their number.

    Args:
        longest: seconds; a longer `Retry-After` is cut to this.
    """

    def __init__(self, clock: Clock, *, longest: float = MAX_RETRY_AFTER) -> None:
        self._clock = clock
        self._longest = longest
        self._general = Pause(clock.time())
        self._lanes: OrderedDict[Lane, Pause] = OrderedDict()  # the one set longest ago first

    def current(self, lane: Lane) -> Pause | None:
        """Return the pause that a request of `lane` must wait for, the longer of two."""
        longest = max(self._general, self._lanes.get(lane, self._general), key=_end)
        return longest if longest.end > self._clock.time() else None

    def remaining(self, lane: Lane) -> float:
        """Return the seconds for which requests of `lane` must wait, 0 if they need not."""
        pause = self.current(lane)
        return 0.0 if pause is None else pause.end - self._clock.time()

    async def wait(self, lane: Lane) -> None:
        """Wait until nothing pauses `lane`, including pauses that begin meanwhile."""
        while (pause := self.current(lane)) is not None:
            await sleep_until(self._clock, pause.end)

    def record(self, lane: Lane, answer: Response) -> None:
        """Begin or extend the pause that `answer` to a request of `lane` asks for, if any."""
        seconds = retry_after(answer.headers)
        if seconds is None or answer.status not in _STATUSES:
            return
        status = parse_status(answer)
        if status is None:
            self.pause_all(seconds, excerpt(answer.body))
            return
        self.pause_lane(lane, seconds, status.message)
        if not lane.writes and self._refused_reads() >= REFUSED_READS:
            self.pause_all(seconds, status.message)

    def pause_all(self, seconds: float, reason: str) -> None:
        """Let no request be sent for `seconds`; never shortens a pause."""
        end = self._clock.time() + min(seconds, MAX_GENERAL_PAUSE, self._longest)
        self._general = max(self._general, Pause(end, reason), key=_end)

    def pause_lane(self, lane: Lane, seconds: float, reason: str) -> None:
        """Let no request of `lane` be sent for `seconds`; never shortens a pause."""
        now = self._clock.time()
        pause = Pause(now + min(seconds, self._longest), reason)
        self._lanes[lane] = max(self._lanes.pop(lane, pause), pause, key=_end)
        while (oldest := next(iter(self._lanes))) is not lane and self._lanes[oldest].end <= now:
            del self._lanes[oldest]

    def paused(self) -> Mapping[tuple[str, str], int]:
        """Return the number of paused lanes by verb and resource.

        The key of a pause of all requests is `("all", "all")`.
        """
        now = self._clock.time()
        lanes = Counter((ln.verb, ln.resource) for ln, p in self._lanes.items() if p.end > now)
        if self._general.end > now:
            lanes["all", "all"] = 1
        return lanes

    def _refused_reads(self) -> int:
        """Return the number of resources with a paused lane of reads."""
        now = self._clock.time()
        return len({ln.resource for ln, p in self._lanes.items() if p.end > now and not ln.writes})


SILENCE = 12.0
"""Seconds without an answer after which a caller is told.

Longer than the default time limit of admission webhooks, so that the server can first report which
of them does not answer.
"""


class Sender:
    """Sends requests of one client.

    Args:
        concurrency: limit of concurrent requests; streams do not count.
        timeout: seconds for waiting and retries, and again for one attempt: a request that waited
            long for others must still get its full time.
        rate_limiter: every attempt waits for its turn; streams do not.
        longest_pause: seconds; a longer `Retry-After` is cut to this.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str,
        clock: Clock,
        concurrency: int,
        timeout: float,
        metrics: ClientMetrics | None = None,
        rate_limiter: RateLimiter | None = None,
        longest_pause: float = MAX_RETRY_AFTER,
    ) -> None:
        self._transport = transport
        self._headers = {"user-agent": user_agent, "accept": "application/json"}
        self._clock = clock
        self._timeout = timeout
        self._metrics = metrics or NO_METRICS
        self._rate_limiter = rate_limiter
        self._longest_pause = longest_pause
        self.pauses = Pauses(clock, longest=longest_pause)
        self.limiter = FairLimiter(concurrency, clock)

    async def send(
        self,
        request: Request,
        *,
        flow: str = "",
        timeout: float | None = None,  # noqa: ASYNC109  part of the public time budget
        repeat: bool = True,
        on_silence: Callable[[OutcomeUnknown], None] | None = None,
    ) -> Response:
        """Send `request`, retry it where that is safe, and return the last response.

        The slot counts for `flow`, if one is given. `timeout` replaces the sender's own limit, in
        seconds; callers with their own back-off do not let it `repeat`. `on_silence` is called
        while an attempt stays unanswered for longer than `SILENCE`.

        Raises:
            NotSent: no attempt reached the server.
            Paused: not sent, because the server demands a longer pause than the time limit.
            OutcomeUnknown: the last attempt may have reached the server.
        """
        lane = lane_of(request)
        limit = self._timeout if timeout is None else timeout
        deadline = self._clock.time() + limit
        attempts_left = MAX_ATTEMPTS if repeat else 1
        if flow:
            attempts_left = min(attempts_left, 2 if request.method == "GET" else 1)
        while True:
            attempts_left -= 1
            slot = await self._take_slot(request, lane, flow, deadline)
            timer = self._listen(request, on_silence)
            answer = failure = None
            try:
                most = MAX_LIST if lane.verb == "list" else MAX_BODY
                answer = await self._exchange(request, limit, most, self._metrics)
                self.pauses.record(lane, answer)
            except OutcomeUnknown as error:
                failure = error
            finally:
                if timer is not None:
                    timer.cancel()
                self.limiter.release(slot)
            wait = self._wait_before_repeating(request, answer)
            out_of_time = wait is not None and self._clock.time() + wait >= deadline
            if wait is None or out_of_time or not attempts_left:
                if answer is None:
                    assert failure is not None
                    raise failure
                return answer
            self._metrics.record_retry(
                request.method, "<error>" if answer is None else str(answer.status)
            )
            await sleep_until(self._clock, self._clock.time() + wait)

    async def send_once(
        self,
        request: Request,
        *,
        timeout: float,  # noqa: ASYNC109  as above
        limit: int = MAX_BODY,
    ) -> Response:
        """Send `request` without a slot, a pause or a retry: for requests to another server.

        The response of a service behind the API server's proxy says nothing about the API
        server, so the attempt is not counted as one to it, and a slow service must not use up the
        slots of Kubernetes requests.
        """
        return await self._exchange(request, timeout, limit)

    @asynccontextmanager
    async def stream(self, request: Request, *, start_timeout: float) -> AsyncGenerator[RawAnswer]:
        """Open an endless response. It waits for a pause but takes no slot.

        Leaving the context closes the stream. `start_timeout` limits the seconds until the
        status line; from then on the reader sets the time limits.
        """
        started, lane = self._clock.time(), lane_of(request)
        await self.pauses.wait(lane)
        self._metrics.record_wait(request.method, self._clock.time() - started)
        try:
            async with asyncio.timeout(start_timeout):
                status, headers, chunks = await self._transport.request(self._complete(request))
                if not 200 <= status < 300:
                    body = await read_body(status, chunks)
                    self.pauses.record(lane, Response(status, headers, body))
                    chunks = _once(body)
        except TimeoutError:
            self._metrics.record_attempt(request.method, "<error>", None)
            raise OutcomeUnknown(f"{request}: no answer within {start_timeout:g} s") from None
        except (NotSent, OutcomeUnknown):
            self._metrics.record_attempt(request.method, "<error>", None)
            raise
        self._metrics.record_attempt(request.method, str(status), None)
        try:
            yield status, headers, chunks
        finally:
            await chunks.aclose()

    def _listen(
        self, request: Request, on_silence: Callable[[OutcomeUnknown], None] | None
    ) -> TimerHandle | None:
        """Return the timer that calls `on_silence` if an attempt stays unanswered for long."""
        if on_silence is None:
            return None
        silence = OutcomeUnknown(f"{request}: no complete answer within {SILENCE:.1f} s")
        return self._clock.call_at(self._clock.time() + SILENCE, on_silence, silence)

    async def _take_slot(self, request: Request, lane: Lane, flow: str, deadline: float) -> Slot:
        """Wait for the pause, then for a slot, and anew if a pause has begun meanwhile."""
        started = self._clock.time()
        if self._rate_limiter is not None:
            await self._rate_limiter.wait(deadline)
        while True:
            if (pause := self.pauses.current(lane)) is not None:
                if pause.end >= deadline:
                    raise Paused(
                        f"{request}: not sent, the server asked to wait: {pause.reason}",
                        retry_after=pause.end - self._clock.time(),
                    )
                await self.pauses.wait(lane)
            try:
                slot = await self.limiter.acquire(flow, lane, deadline)
            except TimeoutError:
                raise NotSent(f"{request}: not sent, too many requests in flight") from None
            if self.pauses.current(lane) is None:
                self._metrics.record_wait(request.method, self._clock.time() - started)
                return slot
            self.limiter.release(slot)

    async def _exchange(
        self, request: Request, limit: float, max_bytes: int, metrics: ClientMetrics = NO_METRICS
    ) -> Response:
        """Send once, read the whole response within `limit` seconds, and count the attempt."""
        started = self._clock.time()
        try:
            async with asyncio.timeout(limit):
                status, headers, chunks = await self._transport.request(self._complete(request))
                body = await read_body(status, chunks, max_bytes)
        except (TimeoutError, NotSent, OutcomeUnknown, UnexpectedResponse) as error:
            metrics.record_attempt(request.method, "<error>", self._clock.time() - started)
            if isinstance(error, TimeoutError):
                text = f"{request}: no complete answer within {limit:.1f} s"
                raise OutcomeUnknown(text) from None
            if isinstance(error, UnexpectedResponse) and request.method != "GET":
                raise WriteUnconfirmed(f"{request}: {error}") from error
            raise
        metrics.record_attempt(request.method, str(status), self._clock.time() - started)
        metrics.record_transfer(request.method, len(request.body or b""), len(body))
        return Response(status, headers, body)

    def _complete(self, request: Request) -> Request:
        """Return the request with the headers of all requests."""
        return replace(request, headers={**self._headers, **request.headers})

    def _wait_before_repeating(self, request: Request, answer: Response | None) -> float | None:
        """Return the seconds after which `request` may be sent again, None if it must not be."""
        if answer is None:
            return RESET_DELAY if request.method == "GET" else None
        wait = retry_after(answer.headers)
        if wait is None or answer.ok:
            return None
        status = parse_status(answer)
        repeat = is_retryable(request.method, answer.status, status.reason if status else "")
        return min(wait, self._longest_pause) if repeat else None


async def _once(body: bytes) -> Chunks:
    if body:
        yield body
