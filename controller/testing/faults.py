"""Injects faults in front of any transport.

Each `Rule` says which requests its fault applies to: resource, verb and name, after how many
matching occurrences, and how often. The same rules on the same requests always apply in the same
places. A journal records every request and every event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from controller.kube.errors import NotSent, OutcomeUnknown
from controller.kube.transport import Chunks, RawResponse, Request, Transport, sleep_until
from controller.testing.journal import (
    Attributes,
    DeliveredEvent,
    Journal,
    JournalEntry,
    attributes_of,
    attributes_of_event,
)
from informers import Clock, LineSplitter

EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},'
    b'"status":"Failure","message":"too old resource version (injected)",'
    b'"reason":"Expired","code":410}}'
)


class Refused(msgspec.Struct, frozen=True):
    """The connection is refused: `NotSent`."""


class LostRequest(msgspec.Struct, frozen=True):
    """The request is lost on its way and nothing happens; the client cannot know that."""


class LostResponse(msgspec.Struct, frozen=True):
    """The request is carried out, and its answer is lost: `OutcomeUnknown`."""


class DelayedRequest(msgspec.Struct, frozen=True):
    """The request waits so many seconds before it is carried out."""

    seconds: float


class DelayedResponse(msgspec.Struct, frozen=True):
    """The request is carried out at once, its answer waits so many seconds."""

    seconds: float


class ErrorResponse(msgspec.Struct, frozen=True):
    """The server answers with an error `Status` and does nothing.

    `{n}` in the message stands for the number of the request, so that every text is another one.
    `retry_after` is in seconds; None leaves the header out.
    """

    code: int
    reason: str = ""
    message: str = "injected"
    retry_after: int | None = None


class Lag(msgspec.Struct, frozen=True):
    """Each line of a watch, bookmarks included, arrives so many seconds late, in order."""

    seconds: float


class Cut(msgspec.Struct, frozen=True):
    """A watch ends in place of an event: by a reset, or cleanly."""

    cleanly: bool = False


class Gone(msgspec.Struct, frozen=True):
    """An ERROR event with 410 takes the place of an event, and the watch ends."""


RequestFault: TypeAlias = (
    Refused | LostRequest | LostResponse | DelayedRequest | DelayedResponse | ErrorResponse
)
EventFault: TypeAlias = Lag | Cut | Gone


@dataclass
class Rule:
    """Says which occurrences a fault applies to.

    Occurrences are requests or, for `Lag`, `Cut` and `Gone`, events of watches counted over all
    watches of the transport.

    Attributes:
        fault: the fault.
        resource: `pods`, `rayclusters.ray.io`; empty for any.
        verbs: RBAC verbs, empty for any; without meaning for events.
        name: predicate on the object's name; None for any object.
        namespace: of the object; empty for any, and for objects without one.
        skip: matching occurrences that pass first.
        times: how often it applies, None for no limit.
        seen: matching occurrences so far.
    """

    fault: RequestFault | EventFault
    resource: str = ""
    verbs: frozenset[str] = frozenset()
    name: Callable[[str], bool] | None = None
    skip: int = 0
    times: int | None = None
    seen: int = 0
    namespace: str = ""

    def applies(self, verb: str, resource: str, name: str, namespace: str = "") -> bool:
        """Return whether the fault applies to this occurrence; count it if it matches."""
        if self.resource not in {"", resource} or (self.verbs and verb not in self.verbs):
            return False
        if self.namespace not in {"", namespace}:
            return False
        if self.name is not None and not self.name(name):
            return False
        self.seen += 1
        end = None if self.times is None else self.skip + self.times
        return self.seen > self.skip and (end is None or self.seen <= end)


def watch_lag(resource: str, seconds: float) -> Rule:
    """Every event of `resource` arrives `seconds` late."""
    return Rule(Lag(seconds), resource)


def watch_cut(resource: str, event: int, *, cleanly: bool = False) -> Rule:
    """The watch ends in place of the `event`-th event of `resource`, counted from 1."""
    return Rule(Cut(cleanly), resource, skip=event - 1, times=1)


def watch_gone(resource: str, event: int) -> Rule:
    """410 takes the place of the `event`-th event of `resource`, counted from 1."""
    return Rule(Gone(), resource, skip=event - 1, times=1)


def on_write(fault: RequestFault, number: int, resource: str = "") -> Rule:
    """`fault` applies to the `number`-th write, counted from 1."""
    verbs = frozenset({"create", "update", "patch", "delete"})
    return Rule(fault, resource, verbs, skip=number - 1, times=1)


# A watch stream that delivers events late, breaks off, or reports an expired revision.
#
# The inner stream is read without delay, line by line; each line is delivered when it is due.

_LINE_LIMIT = 1 << 30


class Delivery(msgspec.Struct, frozen=True):
    """How one line is delivered.

    Attributes:
        delay: seconds until the line is delivered; the lines behind it wait as well.
        ends: `no`; `cleanly` or `broken` if the stream ends in place of this line.
        last: a line that is delivered before the stream ends.
    """

    delay: float = 0.0
    ends: str = "no"
    last: bytes = b""


class FaultyWatch(AsyncGenerator[bytes, None]):
    """Chunks of a watch, one line each, delivered as `schedule` decides.

    Args:
        chunks: the inner stream; closed with this one.
        clock: decides when a line is due.
        schedule: called once for each line, when it arrives.
        delivered: called with each line when it is delivered.
        closed: called when the stream is closed.
    """

    def __init__(
        self,
        chunks: Chunks,
        clock: Clock,
        schedule: Callable[[bytes], Delivery],
        delivered: Callable[[bytes], None],
        closed: Callable[[FaultyWatch], None],
    ) -> None:
        self._chunks = chunks
        self._clock = clock
        self._schedule = schedule
        self._delivered = delivered
        self._on_close = closed
        self._due: deque[tuple[float, bytes | BaseException | None]] = deque()  # None: it ended
        self._delay = 0.0
        self._changed = asyncio.Event()
        self._closed = False
        self._severed = False
        self._pump = asyncio.create_task(self._read())

    def sever(self) -> None:
        """Break the connection now: lines that are not yet delivered are lost."""
        self._severed = True
        self._changed.set()

    async def asend(self, _value: None) -> bytes:
        """Return the next line that is due."""
        while not self._closed:
            if self._severed:
                await self.aclose()
                raise OutcomeUnknown("watch: connection severed (injected)")
            if self._due and self._due[0][0] <= self._clock.time():
                return await self._deliver(self._due.popleft()[1])
            await self._wait()
        raise StopAsyncIteration

    async def athrow(self, typ: Any, _value: Any = None, _traceback: Any = None) -> bytes:
        """Close, and raise what was thrown."""
        await self.aclose()
        raise typ

    async def aclose(self) -> None:
        """Close the inner stream too."""
        self._closed = True
        self._on_close(self)
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self._chunks.aclose()

    async def _deliver(self, item: bytes | BaseException | None) -> bytes:
        if isinstance(item, bytes):
            self._delivered(item)
            return item + b"\n"
        await self.aclose()
        raise StopAsyncIteration if item is None else item

    async def _wait(self) -> None:
        self._changed.clear()
        timer = self._clock.call_at(self._due[0][0], self._changed.set) if self._due else None
        try:
            await self._changed.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _read(self) -> None:
        splitter = LineSplitter(_LINE_LIMIT)
        try:
            async for chunk in self._chunks:
                for line in splitter.feed(chunk):
                    if not self._take(line):
                        return
        except Exception as error:  # noqa: BLE001  raised where the stream is read
            self._put(error)
            return
        rest = splitter.tail()
        if rest:
            self._put(rest)
        self._put(None)

    def _take(self, line: bytes) -> bool:
        """Queue one line or its replacement; return whether the stream continues."""
        delivery = self._schedule(line)
        self._delay = delivery.delay
        if delivery.ends == "no":
            self._put(line)
            return True
        if delivery.last:
            self._put(delivery.last)
        broken = OutcomeUnknown("watch: connection reset (injected)")
        self._put(None if delivery.ends == "cleanly" else broken)
        return False

    def _put(self, item: bytes | BaseException | None) -> None:
        self._due.append((self._clock.time() + self._delay, item))
        self._changed.set()


class FaultyTransport:
    """`Transport` in front of another one, with faults.

    Args:
        inner: the transport that does the work.
        rules: the faults; the attribute of this name may be changed at any time.
        clock: used for all delays.

    Attributes:
        rules: see above. All that match are applied, in this order.
        journal: every request, and every event that reached the client.
        on_request: called with the entry before anything is done about a request.
        on_answer: called with the entry when its outcome is known and before the client knows.
    """

    def __init__(self, inner: Transport, rules: Iterable[Rule] = (), *, clock: Clock) -> None:
        self.rules = list(rules)
        self.journal = Journal()
        self.on_request: list[Callable[[JournalEntry], None]] = []
        self.on_answer: list[Callable[[JournalEntry], None]] = []
        self._inner = inner
        self._clock = clock
        self._severed = False
        self._watches: dict[FaultyWatch, None] = {}

    async def request(self, request: Request) -> RawResponse:
        """Send a request, unless a rule says otherwise; see `Transport.request`."""
        number = len(self.journal.entries)
        entry = JournalEntry(number, attributes_of(request), body=request.body or b"")
        self.journal.entries.append(entry)
        for callback in self.on_request:
            callback(entry)
        faults = self._faults_of(entry.attributes)
        refusal = await self._before(faults, entry)
        return refusal or await self._forward(request, faults, entry)

    def sever(self) -> None:
        """Cut the connection for good: no request is sent and no answer arrives any more."""
        self._severed = True
        for watch in list(self._watches):
            watch.sever()

    def _faults_of(self, about: Attributes) -> list[RequestFault]:
        return [
            rule.fault
            for rule in self.rules
            if not isinstance(rule.fault, Lag | Cut | Gone)
            and rule.applies(about.verb, about.resource, about.name, about.namespace)
        ]

    async def _before(self, faults: list[RequestFault], entry: JournalEntry) -> RawResponse | None:
        """Apply the faults before the server; return an answer if the request does not reach it."""
        if self._severed:
            self._finish(entry, "severed")
            raise NotSent("connection refused (severed)")
        for fault in faults:
            match fault:
                case Refused():
                    self._finish(entry, "refused")
                    raise NotSent("connection refused (injected)")
                case LostRequest():
                    self._finish(entry, "lost request")
                    raise OutcomeUnknown("connection reset (injected)")
                case ErrorResponse():
                    self._finish(entry, str(fault.code))
                    return _refusal(fault, entry.number)
                case DelayedRequest(seconds):
                    await sleep_until(self._clock, self._clock.time() + seconds)
                case LostResponse() | DelayedResponse():
                    pass
        return None

    async def _forward(
        self, request: Request, faults: list[RequestFault], entry: JournalEntry
    ) -> RawResponse:
        """Forward the request and apply the faults of its answer."""
        entry.forwarded = True
        try:
            status, headers, chunks = await self._inner.request(request)
        except (NotSent, OutcomeUnknown):
            self._finish(entry, "failed")
            raise
        try:
            await self._after(faults, status, entry)
        except BaseException:
            await chunks.aclose()
            raise
        if request.watching and status == 200:
            chunks = self._with_event_faults(entry.attributes, chunks)
        return status, headers, chunks

    async def _after(self, faults: list[RequestFault], status: int, entry: JournalEntry) -> None:
        for fault in faults:
            if isinstance(fault, DelayedResponse):
                await sleep_until(self._clock, self._clock.time() + fault.seconds)
        lost = LostResponse() in faults
        self._finish(entry, "lost answer" if lost else str(status))
        if lost or self._severed:
            raise OutcomeUnknown("connection reset before the answer (injected)")

    def _with_event_faults(self, about: Attributes, chunks: Chunks) -> FaultyWatch:
        def schedule(line: bytes) -> Delivery:
            return self._delivery(about.resource, line)

        def delivered(line: bytes) -> None:
            self.journal.events.append(DeliveredEvent(about.resource, line))

        watch = FaultyWatch(chunks, self._clock, schedule, delivered, self._forget)
        self._watches[watch] = None
        return watch

    def _forget(self, watch: FaultyWatch) -> None:
        self._watches.pop(watch, None)

    def _delivery(self, resource: str, line: bytes) -> Delivery:
        delivery = Delivery()
        rules = [
            (rule, fault)
            for rule in self.rules
            if isinstance(fault := rule.fault, Lag | Cut | Gone)
        ]
        if not rules:
            return delivery
        event = attributes_of_event(line)
        for rule, fault in rules:
            if rule.applies("watch", resource, event.name, event.namespace):
                delivery = _after_event_fault(delivery, fault)
        return delivery

    def _finish(self, entry: JournalEntry, outcome: str) -> None:
        entry.outcome = outcome
        for callback in self.on_answer:
            callback(entry)


def _after_event_fault(delivery: Delivery, fault: EventFault) -> Delivery:
    match fault:
        case Lag(seconds):
            return replace(delivery, delay=delivery.delay + seconds)
        case Cut(cleanly):
            return replace(delivery, ends="cleanly" if cleanly else "broken")
        case Gone():
            return replace(delivery, ends="cleanly", last=EXPIRED)


def _refusal(fault: ErrorResponse, number: int) -> RawResponse:
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": fault.reason,
        "message": fault.message.replace("{n}", str(number)),
        "code": fault.code,
    }
    headers = {"content-type": "application/json"}
    if fault.retry_after is not None:
        headers["retry-after"] = str(fault.retry_after)
    return fault.code, headers, _once(msgspec.json.encode(status))


async def _once(body: bytes) -> Chunks:
    yield body
