"""What `manta debug` shows of the process: causes and targets, no values."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog
from msgspec import Struct

from controller.apimachinery.redaction import fold
from controller.runtime.kind import ManagerMisuse

# The cause of an error, without the values of users that its message may quote.

_LONGEST: Final = 200
"""Maximum characters of a cause. The log and the object's condition have the whole message."""

_MOST_READ: Final = 4096
"""Maximum characters of a message to examine: some messages quote a whole object."""

_QUOTED: Final = re.compile(
    r'"(?:[^"\\]|\\.)*(?:"|$)' r"|`[^`]*(?:`|$)" r"|(?<!\w)'(?:[^'\\]|\\.)*(?:'|$)",
    re.DOTALL,
)
_UNQUOTED: Final = re.compile(
    r"(\bvalue: ?|=|\{|\bmap\[|\bdenied the request: |\bHTTP \d+: )(?!\s*\"\")\s*\S.*",
    re.IGNORECASE | re.DOTALL,
)
"""A value or structure without quotation marks, and free text of a webhook or a dashboard."""

_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\xa0-\uffff]+")


def cause(message: str) -> str:
    """Return the message on one line, folded and cut, and without anything that it quotes.

    API servers and exceptions quote what they refuse, which may be the value of a variable or an
    annotation. The text ends before a value without quotation marks, whose end is unknown, and
    before free text of a webhook or a dashboard.
    """
    text = _UNPRINTABLE.sub(" ", _QUOTED.sub('""', message[:_MOST_READ]))
    text = fold(_UNQUOTED.sub(r"\1...", text))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


# The shape of the debug page. Durations are in seconds; null means never, or that there is none.
#
# docs/operations.md says what each field means.

T = TypeVar("T", bound=Struct)


class BoundedList(Struct, Generic[T], frozen=True):
    """A list of at most 100 items, the oldest first."""

    total: int
    items: list[T]
    unreadable: int = 0


class Leader(Struct, frozen=True):
    """The leader election."""

    leads: bool
    remaining: float | None = None
    holder: str = ""
    problem: str = ""


class EventLoop(Struct, frozen=True):
    """The lateness of a timer that fires once a second."""

    lag: float | None
    max_lag: float | None


class RunEntry(Struct, frozen=True):
    """A reconcile that is under way."""

    key: str
    duration: float


class BackingOffKey(Struct, frozen=True):
    """A key in back-off."""

    key: str
    failures: int
    failing: float
    next_run: float | None
    cause: str


class ControllerEntry(Struct, frozen=True):
    """A controller and its queue."""

    name: str
    length: int
    dirty: int
    delayed: int
    workers: int
    slow: int
    processing: BoundedList[RunEntry]
    backing_off: BoundedList[BackingOffKey]


class ExpectationEntry(Struct, frozen=True):
    """An object of which this process knows more than its cache shows."""

    object: str
    owners: list[str]
    awaited: str
    kept: str
    age: float
    live_reads: int
    cause: str


class ExpectationsSection(Struct, frozen=True):
    """The expectations: own writes that the caches do not show yet."""

    owners: int
    pending: int
    unknown: int
    entries: BoundedList[ExpectationEntry]


class InformerEntry(Struct, frozen=True):
    """A cache and its watch."""

    resource: str
    namespace: str
    selector: str
    objects: int
    undecodable: int
    revision: str
    state: str
    connected: bool
    last_byte: float | None
    last_event: float | None
    last_list: float | None
    relists: int
    cause: str


class ProbeEntry(Struct, frozen=True):
    """One periodic probe of a Ray dashboard."""

    dashboard: str
    probe: str
    objects: list[str]
    answer: str
    answered: float | None
    changed: float
    failures: int
    cause: str


class TaskGroup(Struct, frozen=True):
    """Tasks of one name that wait at the same place."""

    name: str
    place: str
    count: int


class PageContent(Struct, frozen=True, kw_only=True):
    """The whole page."""

    version: str = ""
    time: str = ""
    log_level: str = ""
    leader: Leader | None = None
    event_loop: EventLoop | None = None
    controllers: BoundedList[ControllerEntry] | None = None
    expectations: ExpectationsSection | None = None
    informers: BoundedList[InformerEntry] | None = None
    probes: BoundedList[ProbeEntry] | None = None
    tasks: BoundedList[TaskGroup] | None = None
    unreadable: dict[str, str] = {}


# Bounded lists of the debug page. An object that cannot be shown does not affect the others.

S = TypeVar("S")

LIMIT: Final = 100
"""Maximum items of one list. The page has several lists and stays below 1 MB."""


def listing(
    objects: Iterable[S],
    describe: Callable[[S], T],
    *,
    total: int | None = None,
    rank: Callable[[T], Any] | None = None,
) -> BoundedList[T]:
    """Return the items that describe these objects, at most `LIMIT`.

    They have the order of the objects, or of their ranks, lowest first. An object for which
    `describe` raises is counted and left out. `total` is given where `objects` are not all.
    """
    items: list[T] = []
    unreadable = seen = 0
    for each in objects:
        seen += 1
        try:
            item = describe(each)
            msgspec.json.encode(item)
        except Exception:  # noqa: BLE001  whatever is odd about it, the others are shown
            unreadable += 1
        else:
            items.append(item)
    if rank is not None:
        items.sort(key=rank)
    return BoundedList(
        total=seen if total is None else total, items=items[:LIMIT], unreadable=unreadable
    )


# Reads the debug page from all parts of the process, only when it is requested.

_log = structlog.stdlib.get_logger("manta.debug")


class DebugPage:
    """The sections of the page, each read by a function without side effects."""

    def __init__(self) -> None:
        self._sections: dict[str, Callable[[], Any]] = {}

    def add(self, name: str, read: Callable[[], Any]) -> None:
        """Fill a field of the page with what `read` returns.

        Raises:
            ManagerMisuse: the page has no such field, or it is filled already.
        """
        if name not in PageContent.__struct_fields__ or name in self._sections:
            raise ManagerMisuse(f"the debug page has no place for another section {name}")
        self._sections[name] = read

    def read(self) -> PageContent:
        """Return the page as it is now; a section that raises is left out and named."""
        found: dict[str, Any] = {}
        unreadable: dict[str, str] = {}
        for name, read in self._sections.items():
            try:
                found[name] = read()
            except Exception as error:  # noqa: BLE001  the others are shown
                _log.exception("debug.section_failed", section=name)
                unreadable[name] = type(error).__name__
        return PageContent(**found, unreadable=unreadable)


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
