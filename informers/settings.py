"""Settings and statistics of reflectors and informers."""

from __future__ import annotations

import math
import random
from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec


class BackoffSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the back-off; all but `factor` and `jitter` in seconds.

    Attributes:
        base: first delay, before jitter.
        factor: each delay is this many times the previous one.
        cap: longest delay, before jitter.
        jitter: each delay is multiplied by a random number in [1, 1 + jitter).
        reset_after: time without failures after which the delays start again at `base`. Must
            exceed the longest delay, otherwise the delays would never grow.
        longest_wait: a longer `Retry-After` is cut to this; a server may send any number.
    """

    base: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0
    longest_wait: float = 60.0

    def __post_init__(self) -> None:
        """Reject a reset window that is not longer than the longest delay."""
        if self.reset_after <= self.cap * (1 + self.jitter):
            raise ValueError("reset_after must be longer than the longest delay")


class RetryBackoff:
    """One back-off, shared by all failures of one reflector."""

    def __init__(self, settings: BackoffSettings, rng: random.Random) -> None:
        self._settings = settings
        self._rng = rng
        self._step = settings.base
        self._quiet_since = math.inf  # there was no delay yet

    def delay(self, now: float, *, at_least: float = 0.0) -> float:
        """Return the seconds to wait from `now`, and increase the next delay.

        The time without failures counts from the end of the previous delay. Upstream counts from
        the previous reset and so shortens the delays during a series of failures (INF-30).

        Args:
            now: time of the clock.
            at_least: the server's `Retry-After`, in seconds.
        """
        settings = self._settings
        if now - self._quiet_since >= settings.reset_after:
            self._step = settings.base
        jittered = self._step * (1 + settings.jitter * self._rng.random())
        self._step = min(self._step * settings.factor, settings.cap)
        delay = max(jittered, min(at_least, settings.longest_wait))
        self._quiet_since = now + delay
        return delay


# Settings of reflectors. All durations are in seconds.


class ReflectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a reflector. The defaults suit any API server.

    Attributes:
        streaming: start with a streaming list if the server supports it.
        streaming_idle_timeout: longest wait for any byte before the end of the initial events; a
            server that ignores `sendInitialEvents` is silent on a quiet collection.
        streaming_deadline: longest wait for the end of the initial events; the same server is
            never silent on a busy collection.
        streaming_attempts: broken streams before a paged list is used instead.
        fall_back: time without streaming lists after a fall-back; doubled each time.
        fall_back_cap: longest such time.
        page_size: objects a page. None: 500 where a limit does not bypass the server's cache
            (INF-4).
        watch_timeout: shortest `timeoutSeconds`; the longest is twice that. At least 300: the
            spread keeps clients from reconnecting all at once.
        start_timeout: longest wait for the response headers of a stream.
        grace: time by which the server may exceed `timeoutSeconds` (INF-24).
        idle_timeout: longest silence on a stream that has sent bookmarks, which come once a minute.
        bookmark_timeout: longest wait for the first bookmark of a stream of a server that sends
            them, which does so once a minute. A server whose revisions went backwards sends none
            until it has caught up.
        short_watch: a stream that ends sooner without a new event counts as a failure.
        line_limit: maximum bytes of one event. etcd holds 1.5 MiB; JSON can enlarge it eightfold.
        batch: maximum number of events between two yields to the event loop.
        backoff: delays after failures.
    """

    streaming: bool = True
    streaming_idle_timeout: float = 60.0
    streaming_deadline: float = 120.0
    streaming_attempts: int = 2
    fall_back: float = 3600.0
    fall_back_cap: float = 86400.0
    page_size: int | None = None
    watch_timeout: float = 300.0
    start_timeout: float = 30.0
    grace: float = 5.0
    idle_timeout: float = 180.0
    bookmark_timeout: float = 150.0
    short_watch: float = 1.0
    line_limit: int = 32 * 1024 * 1024
    batch: int = 500
    backoff: BackoffSettings = msgspec.field(default_factory=BackoffSettings)


# Statistics of informers, read by health checks and metrics.


# Time as a parameter: the part of an asyncio event loop that informers use.


class Clock(Protocol):
    """Monotonic time and timers. Production passes the running loop."""

    def time(self) -> float:
        """Return the seconds since a fixed moment."""
        ...

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> TimerHandle:
        """Call `callback` at `when`; the handle cancels it."""
        ...


@dataclass(slots=True, kw_only=True)
class ReflectorStatistics:
    """Counters and times of a reflector; times are those of its clock, None for never.

    Attributes:
        mode: how the latest list was read, `streaming` or `list`.
        connected: whether a stream is open.
        last_byte: time of the latest byte; with `connected`, the measure of staleness.
        last_list: time of the latest complete list.
        quorum_read: time at which the latest quorum read began whose answer reached the sink.
        last_error: verb, resource and reason of the latest failure; empty after a success.
        lists: paged lists begun.
        relists: lists after the first, by cause.
        watch_restarts: watches resumed without a list, by cause.
        fall_backs: number of fall-backs from streaming to paged lists.
        skipped: events that were unknown, repeated, or without metadata.
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


@dataclass(slots=True, kw_only=True)
class InformerStatistics(ReflectorStatistics):
    """Statistics of one informer: of its reflector, its store and its handlers.

    Attributes:
        state: name of the reflector's state, `Watching`.
        has_synced: whether there was a complete list.
        quarantined: objects that do not fit their type.
        handler_failures: exceptions of handlers, by name.
    """

    name: str
    description: str
    state: str
    has_synced: bool
    resource_version: str
    objects: int
    quarantined: int
    handler_failures: Mapping[str, int]
