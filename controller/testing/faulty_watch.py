"""A watch stream that delivers events late, breaks off, or reports an expired revision.

The inner stream is read without delay, line by line; each line is delivered when it is due.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeAlias

from msgspec import Struct

from controller.kube.errors import OutcomeUnknown
from controller.kube.transport import Chunks
from informers import Clock, LineSplitter

_LINE_LIMIT = 1 << 30


class Delivery(Struct, frozen=True):
    """How one line is delivered.

    Attributes:
        delay: seconds until the line is delivered; the lines behind it wait as well.
        ends: `no`; `cleanly` or `broken` if the stream ends in place of this line.
        last: a line that is delivered before the stream ends.
    """

    delay: float = 0.0
    ends: str = "no"
    last: bytes = b""


Scheduler: TypeAlias = Callable[[bytes], Delivery]


class _End:
    """The inner stream ended cleanly."""


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
        schedule: Scheduler,
        delivered: Callable[[bytes], None],
        closed: Callable[[FaultyWatch], None],
    ) -> None:
        self._chunks = chunks
        self._clock = clock
        self._schedule = schedule
        self._delivered = delivered
        self._on_close = closed
        self._due: deque[tuple[float, bytes | BaseException | _End]] = deque()
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

    async def _deliver(self, item: bytes | BaseException | _End) -> bytes:
        if isinstance(item, bytes):
            self._delivered(item)
            return item + b"\n"
        await self.aclose()
        raise StopAsyncIteration if isinstance(item, _End) else item

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
        self._put(_End())

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
        self._put(_End() if delivery.ends == "cleanly" else broken)
        return False

    def _put(self, item: bytes | BaseException | _End) -> None:
        self._due.append((self._clock.time() + self._delay, item))
        self._changed.set()
