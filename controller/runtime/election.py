"""The interface of leader election.

The manager acquires an `Election` before it starts anything that writes, and stops the process when
leadership is lost. Without an election, `AlwaysLeader` leads from start to end.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, Protocol

from controller.kube.errors import NotSent, OutcomeUnknown
from controller.kube.http import BEFORE_SENDING, ends_within
from controller.kube.transport import RawResponse, Request, Transport
from controller.runtime.debug import Leader, cause
from controller.runtime.elector import Elector


class Fence(Protocol):
    """Checked before every mutating request. Synchronous."""

    def is_leader(self) -> bool:
        """Return whether such a request may be sent now (LE-14)."""
        ...

    def time_left(self) -> float:
        """Return the seconds that a request sent now may take, so that it ends while leading.

        Infinite without a lease.
        """
        ...


class Election(Fence, Protocol):
    """Decides which of several processes leads."""

    async def acquire(self) -> None:
        """Return when this process leads. May be cancelled."""
        ...

    async def lost(self) -> None:
        """Return when this process no longer leads."""
        ...

    async def release(self) -> None:
        """Release the lease; called only when nothing here can write any more (MGR-11)."""
        ...

    async def aclose(self) -> None:
        """Stop the election without releasing the lease."""
        ...


class AlwaysLeader:
    """The election of a process that runs alone: it always leads."""

    def is_leader(self) -> bool:
        """Return True."""
        return True

    def time_left(self) -> float:
        """Return infinity."""
        return math.inf

    def snapshot(self) -> Leader:
        """Return the section `leader` of the debug page."""
        return Leader(leads=True)

    async def acquire(self) -> None:
        """Return at once."""

    async def lost(self) -> None:
        """Never return."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Do nothing: there is no lease."""

    async def aclose(self) -> None:
        """Do nothing."""


# Limits requests to the time in which this process leads.


@asynccontextmanager
async def while_leading(fence: Fence) -> AsyncGenerator[None]:
    """Allow a request only while this process leads, and cancel it before the lease ends (LE-14).

    The limit covers waiting and retries inside the block.

    Raises:
        NotSent: this process does not lead.
        OutcomeUnknown: the request took longer than the lease is certain to hold.
    """
    if not fence.is_leader():
        raise NotSent("this process does not lead")
    left = fence.time_left()
    limit = asyncio.timeout(None if math.isinf(left) else left)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise OutcomeUnknown(
            f"no answer within the {left:.3g} s for which the lease holds"
        ) from None


# The last check before a request is sent: only a leader sends requests that may change anything.
#
# `while_leading` limits the duration of a write. A process that was frozen may nevertheless resume
# between that check and the request, so the transport checks once more (LE-14).

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class FencedTransport:
    """A `Transport` that changes nothing unless this process leads."""

    def __init__(self, inner: Transport, fence: Fence) -> None:
        self._inner = inner
        self._fence = fence

    async def request(self, request: Request) -> RawResponse:
        """Send a request; see `Transport.request`.

        Raises:
            NotSent: also if it may change something and this process does not lead.
        """
        if request.method in _READING:
            return await self._inner.request(request)

        def check() -> None:
            if not self._fence.is_leader():
                raise NotSent(f"{request}: not sent, because this process does not lead")

        check()
        token = BEFORE_SENDING.set(check)  # a process may be frozen while it connects, too
        try:
            return await self._inner.request(request)
        finally:
            BEFORE_SENDING.reset(token)


# An election on a thread with an event loop and connections of its own (LE-14).
#
# The lease is renewed however busy the process is. The process in turn does not depend on the
# thread: it leads while one time is before another, and a thread that hangs loses the lease like a
# server that does not answer.

_TOLERANCE: Final = 4.0
"""Seconds by which a renewal may be late before the thread counts as hung; then writing stops."""

_RELEASE: Final = 15.0
"""Seconds that the thread has for releasing the lease: more than its own limit."""

_JOIN: Final = 5.0
"""Seconds that the thread has for closing its connections."""

_LONGEST_NAME: Final = 253
"""Maximum characters of a holder's name on the debug page: a Lease may contain anything."""


def awake_or_not() -> float:
    """Return monotonic seconds, including the machine's sleep where the system counts it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class ThreadedElection:
    """An `Election` whose candidate lives on another thread.

    Args:
        candidate: opens connections and creates the candidate, on the thread.
    """

    def __init__(self, candidate: Callable[[], AbstractAsyncContextManager[Elector]]) -> None:
        self._open = candidate
        self._elector: Elector | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._acquired, self._ended = asyncio.Event(), asyncio.Event()
        self._releases = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def standby_problem(self) -> str | None:
        """Return why this process could not take over, None if it could, or leads.

        It is a readiness check.
        """
        if self._elector is None or self._elector.is_leader():
            return None
        return self._elector.problem or None

    def is_leader(self) -> bool:
        """Return whether the lease is certain to hold now."""
        return self._elector is not None and self._elector.is_leader()

    def time_left(self) -> float:
        """Return the seconds for which the lease is certain to hold; 0 if it is not."""
        return self._elector.time_left() if self._elector is not None else 0.0

    def snapshot(self) -> Leader:
        """Return the section `leader` of the debug page."""
        if self._elector is None:
            return Leader(leads=False, remaining=0.0)
        seen, left = self._elector, round(self._elector.time_left(), 3)
        return Leader(seen.is_leader(), left, seen.holder[:_LONGEST_NAME], cause(seen.problem))

    async def acquire(self) -> None:
        """Return when this process leads.

        Raises:
            Exception: the candidate could not be created, or ended.
        """
        if self._thread is None:
            here = asyncio.get_running_loop()
            self._thread = threading.Thread(
                target=self._work, args=(here,), name="leader election", daemon=True
            )
            self._thread.start()
        await self._acquired.wait()
        if self._failure is not None:
            raise self._failure

    async def lost(self) -> None:
        """Return when this process no longer leads, or the thread hangs."""
        while not self._ended.is_set():
            left = self.time_left()
            try:
                async with asyncio.timeout(left + _TOLERANCE):
                    await self._ended.wait()
            except TimeoutError:
                if not left and not self.is_leader():
                    return

    async def release(self) -> None:
        """Release the lease, if it is ours, and end the thread."""
        self._releases = True
        if self._loop is not None and not self._ended.is_set():
            self._ask_to_stop(self._loop)
            await ends_within(_RELEASE, self._ended.wait())

    async def aclose(self) -> None:
        """End the thread."""
        if self._thread is None:
            return
        if self._loop is not None and not self._ended.is_set():
            self._ask_to_stop(self._loop)
        if await ends_within(_JOIN, self._ended.wait()):
            self._thread.join()  # else the process ends without it: it is a daemon

    def _ask_to_stop(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the thread's loop is closed: the thread ends
            loop.call_soon_threadsafe(self._stop.set)

    def _work(self, caller: asyncio.AbstractEventLoop) -> None:
        try:
            asyncio.run(self._elect(caller))
        except BaseException as error:  # noqa: BLE001  whatever it is, `acquire` raises it
            self._failure = error
        finally:
            with suppress(RuntimeError):  # the caller's loop is closed
                caller.call_soon_threadsafe(self._acquired.set)
                caller.call_soon_threadsafe(self._ended.set)

    async def _elect(self, caller: asyncio.AbstractEventLoop) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._open() as elector:
            self._elector = elector
            stopped = asyncio.create_task(self._stop.wait())
            course = asyncio.create_task(self._course(elector, caller))
            await asyncio.wait({stopped, course}, return_when=asyncio.FIRST_COMPLETED)
            await (elector.release() if self._releases else elector.aclose())
            stopped.cancel()
            await asyncio.wait({stopped, course})
            if not course.cancelled():
                course.result()

    async def _course(self, elector: Elector, caller: asyncio.AbstractEventLoop) -> None:
        await elector.acquire()
        caller.call_soon_threadsafe(self._acquired.set)
        await elector.lost()
