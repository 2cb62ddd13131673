"""A watch stream whose events come late, break off, or turn into an expiry.

It reads its inner stream without delay, line by line, and lets each line out when it is due.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from controller.kube.errors import OutcomeUnknown
from informers.lines import LineSplitter

if TYPE_CHECKING:
    from controller.kube.transport import Chunks
    from informers.clock import Clock

_LINE_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a line.

    Attributes:
        delay: seconds until it is let out; lines behind it wait as well.
        ends: `no`; `cleanly` or `broken`: the stream ends in place of this line.
        last: a line that is let out before the stream ends.
    """

    delay: float = 0.0
    ends: str = "no"
    last: bytes = b""


Judge: TypeAlias = Callable[[bytes], Verdict]


class _End:
    """The inner stream ended cleanly."""


class DisturbedWatch(AsyncGenerator[bytes, None]):
    """Chunks of a watch, one line each, under the verdicts of `judge`.

    Args:
        chunks: the inner stream; closed with this one.
        clock: decides when a line is due.
        judge: asked once a line, when it arrives.
        delivered: told of each line when it is let out.
        closed: told of the end.
    """

    def __init__(
        self,
        chunks: Chunks,
        clock: Clock,
        judge: Judge,
        delivered: Callable[[bytes], None],
        closed: Callable[[DisturbedWatch], None],
    ) -> None:
        self._chunks = chunks
        self._clock = clock
        self._judge = judge
        self._delivered = delivered
        self._on_close = closed
        self._due: deque[tuple[float, bytes | BaseException | _End]] = deque()
        self._delay = 0.0
        self._changed = asyncio.Event()
        self._closed = False
        self._severed = False
        self._pump = asyncio.create_task(self._read())

    def sever(self) -> None:
        """Break the connection now: lines under way are lost."""
        self._severed = True
        self._changed.set()

    async def asend(self, _value: None) -> bytes:
        """The next line that is due."""
        while not self._closed:
            if self._severed:
                await self.aclose()
                raise OutcomeUnknown("watch: connection severed (injected)")
            if self._due and self._due[0][0] <= self._clock.time():
                return await self._let_out(self._due.popleft()[1])
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

    async def _let_out(self, item: bytes | BaseException | _End) -> bytes:
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
        except Exception as error:  # noqa: BLE001  it is raised where the stream is read
            self._put(error)
            return
        rest = splitter.tail()
        if rest:
            self._put(rest)
        self._put(_End())

    def _take(self, line: bytes) -> bool:
        """Queue one line or what takes its place; whether the stream goes on."""
        verdict = self._judge(line)
        self._delay = verdict.delay
        if verdict.ends == "no":
            self._put(line)
            return True
        if verdict.last:
            self._put(verdict.last)
        broken = OutcomeUnknown("watch: connection reset (injected)")
        self._put(_End() if verdict.ends == "cleanly" else broken)
        return False

    def _put(self, item: bytes | BaseException | _End) -> None:
        self._due.append((self._clock.time() + self._delay, item))
        self._changed.set()
