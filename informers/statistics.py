"""Statistics of informers, read by health checks and metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Mapping


# Time as a parameter: the part of an asyncio event loop that informers use.


class Clock(Protocol):
    """Monotonic time and timers. Production passes the running loop."""

    def time(self) -> float:
        """Return the seconds since a fixed moment."""
        ...

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> TimerHandle:
        """Call `callback` at `when`; the handle cancels it."""
        ...


@dataclass(slots=True)
class ReflectorStatistics:
    """Counters and times of a reflector; times are those of its clock, None for never.

    Attributes:
        quorum_read: time at which the latest quorum read began whose answer reached the sink.
    """

    mode: str = "list"
    connected: bool = False
    last_byte: float | None = None
    last_event: float | None = None
    last_bookmark: float | None = None
    last_list: float | None = None
    quorum_read: float | None = None
    last_error: str = ""
    last_error_at: float | None = None
    lists: int = 0
    streams: int = 0
    relists: Counter[str] = field(default_factory=Counter[str])
    watch_restarts: Counter[str] = field(default_factory=Counter[str])
    fall_backs: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """Statistics of one informer. Times are those of its clock, None for never.

    Attributes:
        name: as given.
        description: description of the source.
        state: name of the reflector's state, `Watching`.
        mode: how the latest list was read, `streaming` or `list`.
        has_synced: whether there was a complete list.
        resource_version: revision of the store.
        objects: number of objects in the store.
        quarantined: objects that do not fit their type.
        connected: whether a stream is open.
        last_byte: time of the latest byte; with `connected`, the measure of staleness.
        last_event: time of the latest event.
        last_bookmark: time of the latest bookmark.
        last_list: time of the latest complete list.
        last_error: verb, resource and reason of the latest failure; empty after a success.
        last_error_at: time of that failure.
        lists: paged lists begun.
        streams: streams opened.
        relists: lists after the first, by cause.
        watch_restarts: watches resumed without a list, by cause.
        fall_backs: number of fall-backs from streaming to paged lists.
        skipped: events that were unknown, repeated, or without metadata.
        handler_failures: exceptions of handlers, by name.
    """

    name: str
    description: str
    state: str
    mode: str
    has_synced: bool
    resource_version: str
    objects: int
    quarantined: int
    connected: bool
    last_byte: float | None
    last_event: float | None
    last_bookmark: float | None
    last_list: float | None
    last_error: str
    last_error_at: float | None
    lists: int
    streams: int
    relists: Mapping[str, int]
    watch_restarts: Mapping[str, int]
    fall_backs: int
    skipped: int
    handler_failures: Mapping[str, int]
