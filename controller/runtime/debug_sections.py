"""The sections of the debug page that show the runtime itself."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, Final

from controller.runtime import debug as shape
from controller.runtime.caches.cache import Cache
from controller.runtime.debug import LIMIT, BoundedList, TaskGroup, cause, listing
from controller.runtime.expectations.expectations import Expectations
from controller.runtime.metrics import LoopLag
from controller.runtime.reconcile.controller import Controller


def event_loop(lag: LoopLag | None) -> shape.EventLoop:
    """Return the section `event_loop`."""
    if lag is None:
        return shape.EventLoop(None, None)
    return shape.EventLoop(_rounded(lag.latest), _rounded(lag.longest))


def controllers(all_of_them: Iterable[Controller[Any]]) -> shape.BoundedList[shape.ControllerEntry]:
    """Return the section `controllers`."""
    return listing(all_of_them, _controller)


def expectations(source: Expectations) -> shape.ExpectationsSection:
    """Return the section `expectations`."""
    numbers = source.statistics()
    return shape.ExpectationsSection(
        owners=numbers.owners,
        pending=numbers.pending,
        unknown=numbers.unknown,
        entries=source.snapshot(),
    )


def informers(caches: Sequence[Cache], now: float) -> shape.BoundedList[shape.InformerEntry]:
    """Return the section `informers` at `now`, clock time in seconds."""
    return listing(
        caches,
        lambda cache: _informer(cache, now),
        rank=lambda item: -math.inf if item.last_byte is None else -item.last_byte,
    )


def _controller(controller: Controller[Any]) -> shape.ControllerEntry:
    queue = controller.queue.snapshot(LIMIT)
    numbers = queue.statistics
    return shape.ControllerEntry(
        name=controller.name,
        length=numbers.ready,
        dirty=sum(numbers.dirty.values()),
        delayed=numbers.delayed,
        workers=controller.workers.busy,
        slow=controller.workers.released,
        processing=listing(
            queue.running,
            lambda run: shape.RunEntry(run.key, _rounded(run.seconds)),
            total=numbers.processing,
        ),
        backing_off=listing(
            queue.failing,
            lambda failing: shape.BackingOffKey(
                key=failing.key,
                failures=failing.failures,
                failing=_rounded(failing.seconds),
                next_run=None if failing.due is None else _rounded(failing.due),
                cause=cause(controller.errors.get(failing.key, "")),
            ),
            total=numbers.failing,
        ),
    )


def _informer(cache: Cache, now: float) -> shape.InformerEntry:
    seen = cache.informer.statistics()

    def since(moment: float | None) -> float | None:
        return None if moment is None else _rounded(now - moment)

    return shape.InformerEntry(
        resource=str(cache.scope.resource),
        namespace=cache.scope.namespace,
        selector=cache.scope.label_selector,
        objects=seen.objects,
        undecodable=seen.quarantined,
        revision=seen.resource_version,
        state=seen.state,
        connected=seen.connected,
        last_byte=since(seen.last_byte),
        last_event=since(seen.last_event),
        last_list=since(seen.last_list),
        relists=sum(seen.relists.values()),
        cause=cause(seen.last_error),
    )


def _rounded(seconds: float) -> float:
    return round(seconds, 3)


# The asyncio tasks of the running loop, and where each of them stands.

_NAMELESS: Final = re.compile(r"Task-\d+")
_DEEPEST: Final = 100
"""Maximum length of a chain of waiting coroutines to follow."""

_LIBRARIES: Final = ("asyncio.", "contextlib", "aiohttp.")

_ODD: Final = "?"


def tasks() -> BoundedList[TaskGroup]:
    """Return groups of equal tasks, by name. A frame's place is read, never its variables."""
    groups = Counter(_name_and_place(task) for task in asyncio.all_tasks())
    return listing(sorted(groups.items()), lambda group: TaskGroup(*group[0], group[1]))


def _name_and_place(task: asyncio.Task[Any]) -> tuple[str, str]:
    try:
        name = task.get_name()
        coroutine = task.get_coro()
        if _NAMELESS.fullmatch(name):
            name = getattr(coroutine, "__qualname__", name)
        return name, _place(coroutine)
    except Exception:  # noqa: BLE001  whatever is odd about it, the others are shown
        return _ODD, _ODD


def _place(coroutine: Any) -> str:
    """Return function and line of the innermost awaited coroutine outside of libraries."""
    frame: FrameType | None = None
    for _ in range(_DEEPEST):
        inner = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if inner is None:
            break
        if frame is None or not _module(inner).startswith(_LIBRARIES):
            frame = inner
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    if frame is None:
        return _ODD
    return f"{_module(frame)}.{frame.f_code.co_qualname}:{frame.f_lineno}"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", _ODD))
