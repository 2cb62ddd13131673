"""The shape of what `manta debug` shows: causes and targets, no values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog
from msgspec import Struct

from controller.apimachinery.redaction import fold
from controller.runtime.errors import ManagerMisuse

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
# `python -m tests.docs.debug_page` writes docs/operations.md from these docstrings.

T = TypeVar("T", bound=Struct)


class BoundedList(Struct, Generic[T], frozen=True):
    """A list of at most 100 items, the oldest first.

    Attributes:
        total: how many there are, shown or not.
        items: those that are shown.
        unreadable: how many were left out because they could not be read.
    """

    total: int
    items: list[T]
    unreadable: int = 0


class Leader(Struct, frozen=True):
    """The leader election.

    Attributes:
        leads: true if this process may write now.
        remaining: time for which the lease is certain to hold; null without an election.
        holder: identity of the last holder seen.
        problem: why the last attempt to take or renew it failed.
    """

    leads: bool
    remaining: float | None = None
    holder: str = ""
    problem: str = ""


class EventLoop(Struct, frozen=True):
    """The lateness of a timer that fires once a second.

    Attributes:
        lag: lag of the event loop at the last turn; null before the caches are complete.
        max_lag: longest lag of the last minute.
    """

    lag: float | None
    max_lag: float | None


class RunEntry(Struct, frozen=True):
    """A reconcile that is under way.

    Attributes:
        key: key of the object.
        duration: time since it began.
    """

    key: str
    duration: float


class BackingOffKey(Struct, frozen=True):
    """A key in back-off.

    Attributes:
        key: key of the object.
        failures: consecutive failures.
        failing: time since the first of them.
        next_run: time until the next attempt; 0 if it waits for a worker, null while it runs.
        cause: last error, without ids and quoted values. The log has all of it.
    """

    key: str
    failures: int
    failing: float
    next_run: float | None
    cause: str


class ControllerEntry(Struct, frozen=True):
    """A controller and its queue.

    Attributes:
        name: name of the controller.
        length: keys that a worker could take now.
        dirty: keys that need a run: those, and keys that changed while they run.
        delayed: keys that wait for a time, including those in back-off.
        workers: reconciles that hold a worker.
        slow: reconciles that continue without one, because their requests take long.
        processing: reconciles under way.
        backing_off: keys that have failed.
    """

    name: str
    length: int
    dirty: int
    delayed: int
    workers: int
    slow: int
    processing: BoundedList[RunEntry]
    backing_off: BoundedList[BackingOffKey]


class ExpectationEntry(Struct, frozen=True):
    """An object of which this process knows more than its cache shows.

    Attributes:
        object: resource and key.
        owners: objects on whose behalf it was written or looked up.
        awaited: expected change; empty for an entry that is only kept.
        kept: reason for keeping an entry that awaits nothing.
        age: time for which it has been awaited or kept.
        live_reads: live reads of the object in that time.
        cause: error of the last attempt, for a write of unknown outcome.
    """

    object: str
    owners: list[str]
    awaited: str
    kept: str
    age: float
    live_reads: int
    cause: str


class ExpectationsSection(Struct, frozen=True):
    """The expectations: own writes that the caches do not show yet.

    Attributes:
        owners: objects for which anything is recorded.
        pending: entries that await something.
        unknown: writes of unknown outcome.
        entries: the expectations, those that await something first.
    """

    owners: int
    pending: int
    unknown: int
    entries: BoundedList[ExpectationEntry]


class InformerEntry(Struct, frozen=True):
    """A cache and its watch.

    Attributes:
        resource: cached resource.
        namespace: namespace to which the cache is limited.
        selector: label selector to which it is limited.
        objects: objects in the cache.
        undecodable: objects that do not fit their type.
        revision: resourceVersion of the cache.
        state: state of the watch: Watching, Streaming, Listing, BackingOff or Stopped.
        connected: true if a watch is open.
        last_byte: time since the last byte from the server, bookmarks included.
        last_event: time since the last event.
        last_list: time since the last complete list.
        relists: lists after the first.
        cause: error of the last request, until the next complete list.
    """

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
    """One periodic probe of a Ray dashboard.

    Attributes:
        dashboard: namespace, service or pod, and port.
        probe: what the probe reads.
        objects: objects that need it.
        answer: kind of the last answer.
        answered: time since the last answer.
        changed: time since the answer changed.
        failures: consecutive failures.
        cause: error of the last of them.
    """

    dashboard: str
    probe: str
    objects: list[str]
    answer: str
    answered: float | None
    changed: float
    failures: int
    cause: str


class TaskGroup(Struct, frozen=True):
    """Tasks of one name that wait at the same place.

    Attributes:
        name: name of the tasks, or the function that a nameless one runs.
        place: function and line at which they wait.
        count: number of these tasks.
    """

    name: str
    place: str
    count: int


class PageContent(Struct, frozen=True, kw_only=True):
    """The whole page.

    Attributes:
        version: version of the operator.
        time: time of the page, UTC.
        log_level: lowest severity that is logged.
        leader: the leader election.
        event_loop: lateness of timers.
        controllers: one for each kind.
        expectations: own writes that the caches do not show yet.
        informers: the caches, the one that has been silent for longest first.
        probes: probes of dashboards, failing ones first.
        tasks: tasks of asyncio.
        unreadable: sections that could not be read, with the class of the exception.
    """

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
    """Return the items that describe these objects, lowest rank first, at most `LIMIT`.

    Args:
        objects: in their order, unless there is a `rank`.
        describe: makes an item of an object. If it raises, the object is counted and left out.
        total: how many objects there are; None if `objects` holds all of them.
        rank: rank of an item; anything that can be compared.
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
