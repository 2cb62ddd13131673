"""How a reflector behaves. All durations are in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from informers.backoff import BackoffSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorSettings:
    """Defaults are right for any API server; tests and odd servers change them.

    Attributes:
        streaming: start with a streaming list (INF-11) where the server can do it.
        streaming_idle_timeout: longest wait for any byte before the end of the initial events; a
            server that ignores `sendInitialEvents` is silent on a quiet collection.
        streaming_deadline: longest wait for the end of the initial events; the same server is
            never silent on a busy collection.
        streaming_attempts: broken streams before a paged list is used instead.
        fall_back: how long streaming lists are left alone after a fall-back; doubled each time.
        fall_back_cap: longest such time.
        page_size: objects a page. None: 500 where a limit does not bypass the server's cache
            (INF-4).
        watch_timeout: least `timeoutSeconds`; the most is twice that. Not below 300: the spread
            protects the server from all clients coming back at once (INF-19).
        start_timeout: longest wait for the header of a stream's answer.
        grace: how long the server may exceed `timeoutSeconds` before we hang up (INF-24).
        idle_timeout: longest silence on a stream that has sent bookmarks, which come once a minute.
        short_watch: a stream that ends sooner and told nothing new counts as a failure (INF-22).
        internal_error_window: how long to answer InternalError events by watching again at once.
        line_limit: most bytes of one event. etcd holds 1.5 MiB; some encodings swell eightfold.
        batch: most events between two yields to the event loop (INF-41).
        backlog: events waiting for the slowest handler before reading pauses (INF-43).
        check_consistency: compare each streamed list with a paged one (INF-17). For tests.
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
    short_watch: float = 1.0
    internal_error_window: float = 0.0
    line_limit: int = 32 * 1024 * 1024
    batch: int = 500
    backlog: int = 10_000
    check_consistency: bool = False
    backoff: BackoffSettings = field(default_factory=BackoffSettings)
