"""Keeps a sink equal to a collection of the API server by list and watch.

`states.py` makes the decisions; this module executes them. One task reads, decodes and applies
in turn, so events are applied in the order of the stream.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol

from msgspec.structs import replace

from informers.codec import Codec, Known
from informers.decoding import LineSplitter
from informers.errors import Disconnected, Expired, HistoryChanged, Malformed, SourceError
from informers.listing import Clock, InitialState, Source, list_request, read_list, watch_query
from informers.states import (
    ActiveState,
    BackingOff,
    Broken,
    Ended,
    Listing,
    ReadOutcome,
    ReflectorState,
    ReflectorStatistics,
    ReflectorTransition,
    RetryBackoff,
    Rewound,
    Silent,
    Stale,
    Stopped,
    Streaming,
    Synced,
    Watching,
    first_state,
    step,
)
from informers.store import (
    Bookmark,
    Ignored,
    Replaced,
    T,
    WatchEvent,
    is_comparable,
    is_newer,
    is_older,
    revision_of,
)

STREAMING_IDLE_TIMEOUT: Final = 60.0
"""Seconds to wait for any byte before the end of the initial events; a server that ignores
`sendInitialEvents` is silent on a quiet collection."""

STREAMING_DEADLINE: Final = 120.0
"""Seconds to wait for the end of the initial events; the same server is never silent on a busy
collection."""

WATCH_TIMEOUT: Final = 300.0
"""Minimum `timeoutSeconds`; the maximum is twice that. The spread keeps clients from reconnecting
all at once."""

START_TIMEOUT: Final = 30.0
"""Seconds to wait for the response headers of a stream."""

GRACE: Final = 5.0
"""Seconds by which the server may exceed `timeoutSeconds` (INF-24)."""

IDLE_TIMEOUT: Final = 180.0
"""Maximum seconds of silence on a stream that has sent bookmarks, which come once a minute."""

BOOKMARK_TIMEOUT: Final = 150.0
"""Seconds to wait for the first bookmark of a stream of a server that sends them, which does so
once a minute. A server whose revisions went backwards sends none until it has caught up."""

LINE_LIMIT: Final = 32 * 1024 * 1024
"""Maximum bytes of one event. etcd holds 1.5 MiB; JSON can enlarge it eightfold."""

BATCH: Final = 500
"""Maximum number of events between two yields to the event loop."""

_log = logging.getLogger(__name__)


class Sink(Protocol[T]):
    """Receives what a reflector reads."""

    @property
    def resource_version(self) -> str:
        """Revision up to which everything was applied; empty before the first `replace`."""
        ...

    @property
    def present(self) -> Known[T]:
        """Returns the object with a key, None if there is none."""
        ...

    def replace(self, replaced: Replaced[T], /) -> None:
        """Apply a complete list."""
        ...

    def apply(self, event: WatchEvent[T], /) -> None:
        """Apply one event."""
        ...

    def shows(self, event: WatchEvent[T], /) -> bool:
        """Return whether the event tells nothing new about its object."""
        ...


class Reflector(Generic[T]):
    """Reads from a source into a sink until cancelled.

    Args:
        streaming: whether streaming lists are used.
        on_error: called with each failure, except the ordinary expiry of a watch.
    """

    def __init__(
        self,
        source: Source,
        codec: Codec[T],
        sink: Sink[T],
        *,
        clock: Clock,
        rng: random.Random,
        streaming: bool,
        on_error: Callable[[SourceError], None],
    ) -> None:
        self._source = source
        self._codec = codec
        self._sink = sink
        self._clock = clock
        self._rng = rng
        self._streaming = streaming
        self._on_error = on_error
        self._backoff = RetryBackoff(rng)
        self._rewound = ""
        self._has_gaps = False
        self._watchdog: asyncio.Timeout | None = None
        self.state: ReflectorState = Stopped()
        self.statistics = ReflectorStatistics()

    def relist(self, sign: str) -> None:
        """List at quorum as soon as the store is complete; a list under way may be too old."""
        self._rewound = sign
        watchdog = self._watchdog
        if watchdog is not None and not watchdog.expired() and isinstance(self.state, Watching):
            watchdog.reschedule(self._clock.time())

    async def run(self) -> None:
        """List and watch until cancelled.

        Raises:
            HistoryChanged: a list at quorum is older than the store.
        """
        active = first_state(streaming=self._streaming)
        try:
            while True:
                self.state = active
                outcome = await (
                    self._list(active) if isinstance(active, Listing) else self._stream(active)
                )
                # The stream of a streaming list continues as a watch, in another state.
                active = await self._follow(self._active, outcome)
        finally:
            self.state = Stopped()

    @property
    def _active(self) -> ActiveState:
        assert isinstance(self.state, Listing | Streaming | Watching)
        return self.state

    async def _follow(self, state: ActiveState, outcome: ReadOutcome) -> ActiveState:
        """Decide, record, and wait if the transition is delayed."""
        transition = self._decide(state, outcome)
        if transition.delayed:
            delay = self._backoff.delay(self._clock.time(), at_least=transition.at_least)
            self.state = BackingOff()
            await asyncio.sleep(delay)
        return transition.state

    def _decide(self, state: ActiveState, outcome: ReadOutcome) -> ReflectorTransition:
        now = self._clock.time()
        transition = step(state, outcome, now)
        self._record(state, outcome, transition, now)
        return transition

    def _record(
        self, state: ActiveState, outcome: ReadOutcome, transition: ReflectorTransition, now: float
    ) -> None:
        seen = self.statistics
        if isinstance(outcome, Synced):
            seen.mode = "streaming" if isinstance(state, Streaming) else "list"
            seen.last_error = ""
            seen.last_list = now
        elif isinstance(state, Watching) and isinstance(transition.state, Watching):
            seen.watch_restarts[transition.cause] += 1
        else:
            seen.relists[transition.cause] += 1
        if isinstance(outcome, Broken):
            self._report(state, outcome.error, now)
        if isinstance(outcome, Rewound):
            _log.warning("%s: %s; listing at quorum", self._source.description, outcome.sign)
        if isinstance(state, Streaming) and isinstance(transition.state, Listing):
            seen.fall_backs += 1
            self._explain_fall_back(outcome, transition.state)

    def _explain_fall_back(self, outcome: ReadOutcome, state: Listing) -> None:
        match outcome:
            case Silent(None):
                why = "no event arrived"
            case Silent(quiet_for):
                why = f"they did not end, the last event arrived {quiet_for:.0f} s ago"
            case Ended():
                why = "the stream ended before the initial events did"
            case Broken(Expired()):
                why = "they expire although they ask for no revision"
            case _:
                why = "they fail"
        _log.warning(
            "%s: paged instead of streaming lists for %.0f s: %s",
            self._source.description,
            state.context.paged_for,
            why,
        )

    def _report(self, state: ActiveState, error: SourceError, now: float) -> None:
        verb = "list" if isinstance(state, Listing) else "watch"
        text = f"{verb} {self._source.description}: {type(error).__name__}: {error}"
        self.statistics.last_error, self.statistics.last_error_at = text, now
        if isinstance(state, Watching) and isinstance(error, Expired):
            return  # ordinary after a long interruption
        _log.warning("%s", text)
        self._on_error(error)

    async def _list(self, state: Listing) -> ReadOutcome:
        self.statistics.lists += 1
        began = self._clock.time()
        held = self._sink.resource_version
        self._begin_list(state)
        request = list_request(state, held)
        try:
            listed = await read_list(self._source, self._codec, request, self._sink.present)
        except SourceError as error:
            return Broken(error)
        if is_older(listed.revision, held) and request.revision:
            return Stale()
        self._expect_no_older(listed.revision, held)
        if not request.revision:
            self.statistics.quorum_read = began
        self._replace(Replaced(listed.objects, listed.undecodable, listed.revision))
        await asyncio.sleep(0)
        return Synced(paginated=listed.paginated and request.revision == "0")

    async def _stream(self, state: Streaming | Watching) -> ReadOutcome:
        if isinstance(state, Streaming):
            self._begin_list(state)
        elif self._rewound:
            return Rewound(self._rewound, requested=True)
        self.statistics.streams += 1
        timeout = int(WATCH_TIMEOUT * (1 + self._rng.random()))
        held = self._sink.resource_version
        query = watch_query(state, held, timeout)
        stream: _Stream[T] = _Stream(
            opened=self._clock.time(),
            timeout=timeout,
            held=held,
            consistent="resourceVersion" not in query,
            splitter=LineSplitter(LINE_LIMIT),
        )
        watchdog = self._watchdog = asyncio.timeout(START_TIMEOUT)
        try:
            async with watchdog, self._source.watch(query) as chunks:
                self.statistics.connected = stream.started = True
                return await self._read(stream, chunks, watchdog)
        except TimeoutError:
            if not watchdog.expired():
                raise
            return self._silent(stream)
        except SourceError as error:
            return Broken(error, stream.started, self._lived(stream), stream.progressed)
        finally:
            self._watchdog = None
            self.statistics.connected = False

    async def _read(
        self, stream: _Stream[T], chunks: AsyncIterator[bytes], watchdog: asyncio.Timeout
    ) -> ReadOutcome:
        """Read until the stream ends or proves useless."""
        codec, present = self._codec, self._sink.present
        watchdog.reschedule(self._read_deadline(stream))
        async for chunk in chunks:
            self.statistics.last_byte = self._clock.time()
            for number, line in enumerate(stream.splitter.feed(chunk), 1):
                useless = self._handle_event(stream, codec.event(line, present))
                if useless is not None:
                    return useless
                if number % BATCH == 0:
                    await asyncio.sleep(0)
            # Keys are planned between what came apart, also where a chunk is always there: a pod
            # that is taken away and gone at once would else never be seen as taken away.
            await asyncio.sleep(0)
            watchdog.reschedule(self._read_deadline(stream))
        if (useless := self._handle_tail(stream)) is not None:
            return useless
        return Ended(self._lived(stream), stream.progressed)

    def _handle_tail(self, stream: _Stream[T]) -> ReadOutcome | None:
        """Handle the last line, which may lack its end; if incomplete, the connection broke."""
        if tail := stream.splitter.tail():
            try:
                event = self._codec.event(tail, self._sink.present)
            except Malformed as error:
                raise Disconnected("the stream ended inside a line") from error
            return self._handle_event(stream, event)
        return None

    def _lived(self, stream: _Stream[T]) -> float:
        return self._clock.time() - stream.opened

    def _idle_time(self, stream: _Stream[T]) -> float | None:
        last = stream.last_event
        return None if last is None else self._clock.time() - last

    def _read_deadline(self, stream: _Stream[T]) -> float:
        """Return the time until which to wait for the next bytes (INF-14, INF-24)."""
        now = self._clock.time()
        if isinstance(self.state, Streaming):
            return min(now + STREAMING_IDLE_TIMEOUT, stream.opened + STREAMING_DEADLINE)
        if self._rewound:
            return now
        end = stream.opened + stream.timeout + GRACE
        if stream.bookmarked:
            return min(end, now + IDLE_TIMEOUT)
        if self._expects_bookmarks:
            return min(end, stream.opened + BOOKMARK_TIMEOUT)
        return end

    @property
    def _expects_bookmarks(self) -> bool:
        return self.statistics.last_bookmark is not None

    def _silent(self, stream: _Stream[T]) -> ReadOutcome:
        """Return what the silence of a stream means."""
        if isinstance(self.state, Watching) and stream.started:
            if self._rewound:
                return Rewound(self._rewound, requested=True)
            if self._expects_bookmarks and not stream.bookmarked:
                return Rewound(f"no bookmark for {self._lived(stream):.0f} s since {stream.held}")
        return Silent(self._idle_time(stream))

    def _begin_list(self, state: Listing | Streaming) -> None:
        if state.context.at_quorum:
            self._rewound = ""

    def _replace(self, replaced: Replaced[T]) -> None:
        self._sink.replace(replace(replaced, fills_gaps=self._has_gaps))
        self._has_gaps = False

    def _expect_no_older(self, revision: str, held: str) -> None:
        """Raise if a list at quorum shows that the server went back in time."""
        if is_older(revision, held):
            raise HistoryChanged(f"{self._source.description} went back from {held} to {revision}")

    def _handle_event(self, stream: _Stream[T], event: WatchEvent[T]) -> Stale | Rewound | None:
        """Handle one event. Return what is wrong with the whole stream, None if nothing is."""
        self.statistics.last_event = stream.last_event = self._clock.time()
        if isinstance(event, Bookmark):
            stream.bookmarked = True
            self.statistics.last_bookmark = self.statistics.last_event
        streaming = isinstance(self.state, Streaming)
        match event:
            case Ignored(reason):
                self._skip(reason)
            case Bookmark(revision, ends_initial_events) if streaming:
                return self._finish_initial(stream, revision) if ends_initial_events else None
            case _ if streaming:
                stream.initial.apply(event)
            case Bookmark(revision) if is_older(revision, self._sink.resource_version):
                held = self._sink.resource_version
                return Rewound(f"a bookmark at {revision}, the store is at {held}")
            case _:
                return self._advance(stream, event)
        return None

    def _finish_initial(self, stream: _Stream[T], revision: str) -> Stale | None:
        """Replace the store by the temporary one and continue with the same stream."""
        if is_older(revision, stream.held) and not stream.consistent:
            return Stale()
        self._expect_no_older(revision, stream.held)
        replaced = stream.initial.complete(revision)
        if stream.consistent:
            self.statistics.quorum_read = stream.opened
        self._replace(replaced)
        stream.initial = InitialState()
        stream.progressed = True
        stream.newest = revision
        self.state = self._decide(self._active, Synced()).state
        return None

    def _advance(self, stream: _Stream[T], event: WatchEvent[T]) -> Rewound | None:
        """Apply an event that is newer than the store; others were applied before.

        Unless the stream is not in order: then the event was passed over.
        """
        revision, held, newest = revision_of(event), self._sink.resource_version, stream.newest
        comparable = is_comparable(revision)
        if comparable and is_newer(revision, newest):
            stream.newest = revision
        if comparable and is_newer(revision, held):
            self._sink.apply(event)
            stream.progressed = True
        elif not is_newer(revision, newest) and not self._sink.shows(event):
            self._has_gaps = True
            return Rewound(f"an event at {revision} after one at {newest}")
        elif not isinstance(event, Bookmark):
            self._skip(f"an event at {revision}, the store is at {held}")
        return None

    def _skip(self, reason: str) -> None:
        self.statistics.skipped += 1
        _log.warning("%s: skipped %s", self._source.description, reason)


@dataclass(slots=True)
class _Stream(Generic[T]):
    """One open stream.

    `consistent`: it requested a quorum read. `newest`: revision of the newest event of the watch.
    """

    opened: float
    timeout: int
    held: str
    consistent: bool
    splitter: LineSplitter
    initial: InitialState[T] = field(default_factory=InitialState[T])
    last_event: float | None = None
    started: bool = False
    progressed: bool = False
    bookmarked: bool = False
    newest: str = ""
