"""The asyncio tasks of the running loop, and where each of them stands."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from controller.runtime.debug.listing import listing
from controller.runtime.debug.shape import TaskGroup

if TYPE_CHECKING:
    from types import FrameType

    from controller.runtime.debug.shape import BoundedList

_NAMELESS: Final = re.compile(r"Task-\d+")
_DEEPEST: Final = 100
"""Maximum length of a chain of waiting coroutines to follow."""

_LIBRARIES: Final = ("asyncio.", "contextlib")

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
