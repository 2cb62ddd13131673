"""What commands need of their process: signals, the clock, its name, the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import uuid
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from importlib import import_module
from types import FrameType
from typing import Any, TypeVar

from controller.runtime.settings import shift_level

# Signals: the first asks for a clean stop, the second ends the process at once.
#
# Two others change the level of the log.

T = TypeVar("T")

INTERRUPTED = 130
"""Exit status of a command that was interrupted."""


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets; a second signal exits with status 1 at once."""
    stop = asyncio.Event()
    _on_signals(stop.set, has_been_asked=stop.is_set)
    return stop


def shift_level_on_signals() -> None:
    """Let SIGUSR1 make the log more verbose, and SIGUSR2 less."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, shift_level, 1)
    loop.add_signal_handler(signal.SIGUSR2, shift_level, -1)


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`; None if `stop` was set first, when `work` has been cancelled."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        working.cancel()
        await asyncio.wait((working,))
        return None
    finally:
        working.cancel()
        stopping.cancel()


async def interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Return the exit status of `work`, or `INTERRUPTED` when a signal has cancelled it.

    Its clean-up has no time limit; a second signal exits with status 1 at once.
    """
    working = asyncio.ensure_future(work)
    _on_signals(working.cancel, has_been_asked=lambda: working.cancelling() > 0)
    try:
        return await working
    except asyncio.CancelledError:
        return INTERRUPTED


def _on_signals(ask: Callable[[], Any], *, has_been_asked: Callable[[], bool]) -> None:
    def on_signal() -> None:
        if has_been_asked():
            os._exit(1)
        ask()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)


# The wall clock, read here and passed to everything below as a parameter.


def wall() -> datetime:
    """Return the time of day, UTC."""
    return datetime.now(UTC)


def identity() -> str:
    """Return a name that no other process has, nor a container that is started again."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}"


# The event loop of the operator: uvloop's, where the extra `uvloop` is installed.


def run_operator(work: Coroutine[Any, Any, T]) -> T:
    """Run the operator until it ends; returns its result."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(work)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


# The first process of a container, for which signals have no default action.
#
# The kernel drops SIGTERM for such a process until it has a handler. The operator's own follows
# when all modules are loaded, which takes seconds under a small limit of the processor; without
# one until then, the kubelet would wait for the whole grace period.


def end_on_sigterm() -> None:
    """Have SIGTERM end this process as it ends all others, if it is the first one."""
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
