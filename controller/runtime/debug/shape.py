"""The shape of the debug page. Durations are in seconds; null means never, or that there is none.

`python -m tests.docs.debug_page` writes docs/operations.md from these docstrings.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


class BoundedList(Struct, Generic[T], frozen=True):
    """A list of at most 100 items, the oldest first.

    Attributes:
        total: how many there are, shown or not.
        items: those that are shown.
        unreadable: how many were left out because something about them is odd.
    """

    total: int
    items: list[T]
    unreadable: int = 0


class Leader(Struct, frozen=True):
    """The leader election.

    Attributes:
        leads: true if this process may write now.
        remaining: for which the lease is certain to hold; null without an election.
        holder: who was seen to hold the lease.
        problem: why the last attempt to take or renew it failed.
    """

    leads: bool
    remaining: float | None = None
    holder: str = ""
    problem: str = ""


class EventLoop(Struct, frozen=True):
    """The lateness of a timer that fires once a second.

    Attributes:
        lag: at its last turn; null before the caches are complete.
        max_lag: the longest of the last minute.
    """

    lag: float | None
    max_lag: float | None


class RunEntry(Struct, frozen=True):
    """A reconcile that is under way.

    Attributes:
        key: of the object.
        duration: since it began.
    """

    key: str
    duration: float


class BackingOffKey(Struct, frozen=True):
    """A key in back-off.

    Attributes:
        key: of the object.
        failures: in a row.
        failing: since the first of them.
        next_run: until it is tried again; 0 if it waits for a worker, null while it runs.
        cause: the last error, without ids and quoted values. The log has all of it.
    """

    key: str
    failures: int
    failing: float
    next_run: float | None
    cause: str


class ControllerEntry(Struct, frozen=True):
    """A controller and its queue.

    Attributes:
        name: of the controller.
        length: keys that a worker could take now.
        dirty: keys that need a run: those, and keys that changed while they run.
        delayed: keys that wait for a time, those in back-off among them.
        workers: reconciles that hold a worker.
        slow: reconciles that go on without one, because their requests take long.
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
    """An object that this process knows more about than its cache.

    Attributes:
        object: resource and key.
        owners: for whose sake it was written or looked up.
        awaited: what is to come; empty for an entry that is kept.
        kept: why an entry is kept that awaits nothing.
        age: since when.
        live_reads: of the object since then.
        cause: how the last attempt failed, for a write of unknown outcome.
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
        entries: those that await something first.
    """

    owners: int
    pending: int
    unknown: int
    entries: BoundedList[ExpectationEntry]


class InformerEntry(Struct, frozen=True):
    """A cache and its watch.

    Attributes:
        resource: that it holds.
        namespace: that it is limited to.
        selector: of labels that it is limited to.
        objects: in the cache.
        undecodable: objects that do not fit their type.
        revision: of the cache.
        state: of the watch: Watching, Streaming, Listing, BackingOff or Stopped.
        connected: true if a watch is open.
        last_byte: since anything came, bookmarks included.
        last_event: since the last event.
        last_list: since the last complete list.
        relists: lists after the first.
        cause: why the last request failed, until the next complete list.
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
    """One probe, which asks a dashboard of Ray again and again.

    Attributes:
        dashboard: namespace, service or pod, and port.
        probe: what is asked.
        objects: for whose sake.
        answer: kind of the last answer.
        answered: since the last answer.
        changed: since the answer changed.
        failures: in a row.
        cause: how the last of them failed.
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
    """Tasks of one name that stand at the same place.

    Attributes:
        name: of the tasks, or the function that a nameless one runs.
        place: function and line at which they wait.
        count: how many.
    """

    name: str
    place: str
    count: int


class PageContent(Struct, frozen=True, kw_only=True):
    """The whole page.

    Attributes:
        version: of the operator.
        time: of the page, UTC.
        log_level: least severity that is logged.
        leader: the leader election.
        event_loop: how late timers are.
        controllers: one for each kind.
        expectations: own writes that the caches do not show yet.
        informers: the caches, the one first that has been silent for longest.
        probes: of dashboards, failing ones first.
        tasks: of asyncio.
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
