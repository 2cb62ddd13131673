"""Virtual time: an event loop whose clock jumps to the next timer when nothing is left to do."""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from itertools import count
from typing import Any, Self, TypeVar

T = TypeVar("T")

TICK = 1e-6
"""Seconds by which the clock advances; it counts them, so that no sum has a rounding error."""


class DeadlockError(RuntimeError):
    """Every task waits for something that no other task and no timer will ever bring."""

    def __init__(self) -> None:
        super().__init__(
            "every task waits, and no timer is set: what they wait for never comes. "
            "Virtual time knows no sockets, pipes and processes; they need an ordinary event loop"
        )


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time: an hour takes as long as what happens in it.

    Timers fall on ticks of the clock, never early. Of two at the same time the one that was set
    first is due first: asyncio leaves their order to its heap, whose shape depends on the addresses
    of tasks. What would run in a thread runs at once, in the thread of the loop.

    Raises:
        DeadlockError: by `run_until_complete`, where an ordinary loop would wait for ever.
    """

    def __init__(self) -> None:
        self._clock = _Clock()
        self._places = count()
        self._thread = threading.get_ident()
        super().__init__(self._clock)
        self._clock_resolution = TICK / 2  # asyncio runs timers early by as much

    def time(self) -> float:
        """Return the seconds since the loop was made."""
        return self._clock.ticks * TICK

    def block(self, seconds: float) -> None:
        """Let time pass in the midst of a callback, as work that blocks the loop does."""
        self._clock.advance(seconds)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call `callback` at the first tick that is not before `when`."""
        ticks = math.ceil(when / TICK)
        while ticks * TICK < when:
            ticks += 1
        moment = _Moment(ticks * TICK, next(self._places))
        return super().call_at(moment, callback, *args, context=context)

    def call_soon_threadsafe(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call `callback` soon; only from the thread of the loop, as nothing waits for others.

        Raises:
            RuntimeError: from another thread: when it calls is chance.
        """
        if threading.get_ident() != self._thread:
            raise RuntimeError("virtual time knows no other threads")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self,
        executor: object,  # noqa: ARG002  there are no threads
        func: Callable[..., T],
        *args: Any,
    ) -> asyncio.Future[T]:
        """Call `func` at once and in this thread: no virtual time passes meanwhile."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  raised where the result is awaited
            done.set_exception(error)
        return done


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time, as `asyncio.run` does in real time, and return its result.

    Raises:
        DeadlockError: see `VirtualLoop`.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class _Clock(selectors.SelectSelector):
    """Lets time pass where an ordinary selector waits for files; no file is ever ready."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks = 0

    def advance(self, seconds: float) -> None:
        self.ticks += round(seconds / TICK)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Advance to the next timer, which is due in `timeout` seconds."""
        if timeout is None:
            raise DeadlockError
        self.advance(timeout)
        return []


class _Moment(float):
    """When a timer is due, and its place among those that are due at the same time."""

    __slots__ = ("place",)
    place: int

    def __new__(cls, when: float, place: int) -> Self:
        moment = super().__new__(cls, when)
        moment.place = place
        return moment

    def __lt__(self, other: float) -> bool:
        if self == other:
            return isinstance(other, _Moment) and self.place < other.place
        return float.__lt__(self, other)
