"""Settings of reflectors. All durations are in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from informers.list_watch.backoff import BackoffSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorSettings:
    """Settings of a reflector. The defaults suit any API server.

    Attributes:
        streaming: start with a streaming list (INF-11) if the server supports it.
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
            spread keeps clients from reconnecting all at once (INF-19).
        start_timeout: longest wait for the response headers of a stream.
        grace: time by which the server may exceed `timeoutSeconds` (INF-24).
        idle_timeout: longest silence on a stream that has sent bookmarks, which come once a minute.
        bookmark_timeout: longest wait for the first bookmark of a stream of a server that sends
            them, which does so once a minute. A server whose revisions went backwards sends none
            until it has caught up.
        short_watch: a stream that ends sooner without a new event counts as a failure (INF-22).
        line_limit: maximum bytes of one event. etcd holds 1.5 MiB; JSON can enlarge it eightfold.
        batch: maximum number of events between two yields to the event loop (INF-41).
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
    backoff: BackoffSettings = field(default_factory=BackoffSettings)
