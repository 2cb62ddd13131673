"""The state machine of a reflector: states, outcomes and transitions.

    Streaming --synced--> Watching <--synced-- Listing
        |                  |    ^                 ^
        |                  |    '-- again         |
        '---- fall back ---|----------------------'
                           '-- relist --> Streaming or Listing

Everything here is a value or a pure function; `reflector.py` executes it. `ON_ERROR` is the
complete table from errors to actions (INF-14, INF-23).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from informers.errors import (
    ConnectionRefused,
    Disconnected,
    Expired,
    Failed,
    InternalError,
    Malformed,
    ResourceVersionTooLarge,
    SourceError,
    Throttled,
    Unsupported,
)

STREAMING_ATTEMPTS: Final = 2
"""Broken streams before a paged list is used instead."""

FALL_BACK: Final = 3600.0
"""Seconds without streaming lists after a fall-back; doubled each time."""

FALL_BACK_CAP: Final = 86400.0
"""Maximum seconds of that."""

SHORT_WATCH: Final = 1.0
"""Seconds; a stream that ends sooner without a new event counts as a failure."""


class ReflectorContext(Struct, frozen=True, kw_only=True):
    """A reflector's knowledge of its server; passed from state to state.

    Attributes:
        at_quorum: the server cannot use the held revision: request without one (INF-2).
        paginates: the server split a cached list into pages, so it has no cache (INF-4b).
        attempts: consecutive streaming lists that broke.
        paged_until: time until which streaming lists are not used; infinite for never.
        paged_for: length of the latest such period, 0 if streaming works.
        rewound_at: time of the latest stream that showed that the store is wrong.
        rewound_again: whether it came soon after another one.
    """

    at_quorum: bool = False
    paginates: bool = False
    attempts: int = 0
    paged_until: float = -math.inf
    paged_for: float = 0.0
    rewound_at: float = -math.inf
    rewound_again: bool = False


class Listing(Struct, frozen=True):
    """Reading a paged list. Left when it is complete or failed."""

    context: ReflectorContext


class Streaming(Struct, frozen=True):
    """Reading initial events into a temporary store. Left at their end bookmark."""

    context: ReflectorContext


class Watching(Struct, frozen=True):
    """The store is complete and follows the stream. Left when the stream cannot be resumed."""

    context: ReflectorContext


ActiveState: TypeAlias = Listing | Streaming | Watching


class BackingOff(Struct, frozen=True):
    """Waiting before the next attempt."""


class Stopped(Struct, frozen=True):
    """Not started, or ended."""


ReflectorState: TypeAlias = ActiveState | BackingOff | Stopped


class Synced(Struct, frozen=True):
    """The store was replaced by a complete list. `paginated`: a cached list had several pages."""

    paginated: bool = False


class Stale(Struct, frozen=True):
    """A list is older than the store and was rejected."""


class Ended(Struct, frozen=True):
    """The stream ended cleanly after `lived` seconds; `progressed`: it had a new event."""

    lived: float
    progressed: bool


class Silent(Struct, frozen=True):
    """The stream timed out (INF-24) `quiet_for` seconds after its last event, None without one."""

    quiet_for: float | None = None


class Rewound(Struct, frozen=True):
    """There is a sign that the store is wrong, because the server may have gone back in time.

    Its database may have been restored. `requested`: the sign is not from the stream itself.
    """

    sign: str
    requested: bool = False


class Broken(Struct, frozen=True):
    """A request failed or, if `started`, its stream."""

    error: SourceError
    started: bool = False
    lived: float = 0.0
    progressed: bool = False


ReadOutcome: TypeAlias = Synced | Stale | Ended | Silent | Rewound | Broken


class RecoveryAction(Enum):
    """The reaction to an outcome."""

    WATCH = "follow the stream from the revision held"
    RETRY = "the same again, at once"
    RETRY_LATER = "the same again, after a delay"
    ESCALATE = "the same without a revision; if it had none, a paged list, or that after a delay"
    FALL_BACK = "a paged list, at once, and no streaming list for a while"
    RETRY_FEW_TIMES = "RETRY_LATER, but FALL_BACK when the attempts are used up"
    AS_ENDED = "as if the stream had ended cleanly"
    RELIST = "a list from the revision held, after a delay"
    RELIST_AT_QUORUM = "a list without a revision, at once"


class OnError(NamedTuple):
    """One row: the action by what the reflector was doing."""

    listing: RecoveryAction
    streaming: RecoveryAction
    starting: RecoveryAction
    """The request for a watch failed."""
    watching: RecoveryAction
    """A watch broke, or carried an ERROR event."""


_A = RecoveryAction
ON_ERROR: dict[type[SourceError], OnError] = {
    # error                    listing       streaming       starting        watching
    ConnectionRefused: OnError(_A.RELIST, _A.RETRY_LATER, _A.RETRY_LATER, _A.RETRY_LATER),
    Throttled: OnError(_A.RELIST, _A.RETRY_LATER, _A.RETRY_LATER, _A.RETRY_LATER),
    Disconnected: OnError(_A.RELIST, _A.RETRY_FEW_TIMES, _A.RETRY_LATER, _A.AS_ENDED),
    Expired: OnError(_A.ESCALATE, _A.ESCALATE, _A.RELIST, _A.RELIST),
    ResourceVersionTooLarge: OnError(_A.ESCALATE, _A.ESCALATE, _A.RELIST, _A.RELIST),
    Unsupported: OnError(_A.ESCALATE, _A.FALL_BACK, _A.RELIST, _A.RELIST),
    InternalError: OnError(_A.RELIST, _A.FALL_BACK, _A.RELIST, _A.RELIST),
    Malformed: OnError(_A.RELIST, _A.FALL_BACK, _A.RELIST, _A.AS_ENDED),
    Failed: OnError(_A.RELIST, _A.FALL_BACK, _A.RELIST, _A.RELIST),
    SourceError: OnError(_A.RELIST, _A.FALL_BACK, _A.RELIST, _A.RELIST),
}

_HEALTHY = 60.0
"""Seconds without a stream that showed that the store is wrong, after which the next one leads to a
list at once, and to a streaming one if the server has them.
"""


class ReflectorTransition(Struct, frozen=True):
    """The result of a step.

    Attributes:
        delayed: whether to back off first.
        at_least: shortest delay, from Retry-After.
        cause: one word for statistics.
    """

    state: ActiveState
    cause: str
    delayed: bool = False
    at_least: float = 0.0


def first_state(*, streaming: bool) -> ActiveState:
    """Return the initial state of a reflector, `streaming` if it may read streaming lists."""
    return _initial_sync(ReflectorContext(paged_until=-math.inf if streaming else math.inf), 0.0)


def step(state: ActiveState, outcome: ReadOutcome, now: float) -> ReflectorTransition:
    """Return the transition that follows from `outcome` in `state` at time `now`."""
    context = _updated_context(state, outcome, now)
    action = _resolve(decide(state, outcome), state, context)
    delayed = action in {RecoveryAction.RETRY_LATER, RecoveryAction.RELIST}
    return ReflectorTransition(
        state=_follow(action, state, context, now),
        cause=_cause(outcome, action),
        delayed=delayed or (isinstance(outcome, Rewound) and context.rewound_again),
        at_least=outcome.error.retry_after if isinstance(outcome, Broken) else 0.0,
    )


def decide(state: ActiveState, outcome: ReadOutcome) -> RecoveryAction:
    """Return the action that the tables name, with AS_ENDED resolved."""
    match outcome:
        case Synced():
            return RecoveryAction.WATCH
        case Stale():
            return RecoveryAction.ESCALATE
        case Silent():
            return RecoveryAction.RETRY if isinstance(state, Watching) else RecoveryAction.FALL_BACK
        case Rewound():
            return RecoveryAction.RELIST_AT_QUORUM
        case Broken(error, started):
            row = next(ON_ERROR[kind] for kind in type(error).__mro__ if kind in ON_ERROR)
            action = _action_for(row, state, started=started)
            return _ended(state, outcome) if action is RecoveryAction.AS_ENDED else action
        case Ended():
            return _ended(state, outcome)


def _resolve(
    action: RecoveryAction, state: ActiveState, context: ReflectorContext
) -> RecoveryAction:
    """Replace actions that depend on the context by ones that do not."""
    match action:
        case RecoveryAction.ESCALATE if context.at_quorum and isinstance(state, Streaming):
            return RecoveryAction.FALL_BACK
        case RecoveryAction.ESCALATE if context.at_quorum:
            return RecoveryAction.RETRY_LATER
        case RecoveryAction.RETRY_FEW_TIMES:
            is_left = context.attempts < STREAMING_ATTEMPTS
            return RecoveryAction.RETRY_LATER if is_left else RecoveryAction.FALL_BACK
        case _:
            return action


def _follow(
    action: RecoveryAction, state: ActiveState, context: ReflectorContext, now: float
) -> ActiveState:
    match action:
        case RecoveryAction.WATCH:
            return Watching(context)
        case RecoveryAction.ESCALATE:
            return replace(state, context=replace(context, at_quorum=True))
        case RecoveryAction.FALL_BACK:
            return Listing(_leave_streaming(context, now))
        case RecoveryAction.RELIST:
            return _initial_sync(context, now)
        case RecoveryAction.RELIST_AT_QUORUM:
            if context.rewound_again:
                context = _leave_streaming(context, now)
            return _initial_sync(replace(context, at_quorum=True), now)
        case _:
            return replace(state, context=context)


def _cause(outcome: ReadOutcome, action: RecoveryAction) -> str:
    match outcome:
        case Broken(error):
            return type(error).__name__
        case Ended() if action is RecoveryAction.RELIST:
            return "short watch"
        case _:
            return type(outcome).__name__.lower()


def _action_for(row: OnError, state: ActiveState, *, started: bool) -> RecoveryAction:
    match state:
        case Listing():
            return row.listing
        case Streaming():
            return row.streaming
        case Watching():
            return row.watching if started else row.starting


def _ended(state: ActiveState, outcome: Ended | Broken) -> RecoveryAction:
    """Treat a stream without end bookmark as unsupported, and a useless watch as an error.

    What could not be read comes again if the watch begins at the same place.
    """
    if not isinstance(state, Watching):
        return RecoveryAction.FALL_BACK
    repeats = isinstance(outcome, Broken) and isinstance(outcome.error, Malformed)
    if (repeats or outcome.lived < SHORT_WATCH) and not outcome.progressed:
        return RecoveryAction.RELIST
    return RecoveryAction.RETRY


def _updated_context(state: ActiveState, outcome: ReadOutcome, now: float) -> ReflectorContext:
    context = state.context
    match outcome:
        case Synced(paginated):
            return replace(
                context,
                at_quorum=False,
                attempts=0,
                paginates=context.paginates or paginated,
                paged_for=0.0 if isinstance(state, Streaming) else context.paged_for,
            )
        case Broken(Disconnected()) if isinstance(state, Streaming):
            return replace(context, attempts=context.attempts + 1)
        case Rewound(requested=requested):
            again = not requested and now - context.rewound_at < _HEALTHY
            at = context.rewound_at if requested else now
            return replace(context, rewound_at=at, rewound_again=again)
        case _:
            return context


def _initial_sync(context: ReflectorContext, now: float) -> ActiveState:
    if now >= context.paged_until:
        return Streaming(context)
    return Listing(context)


def _leave_streaming(context: ReflectorContext, now: float) -> ReflectorContext:
    length = min(max(2 * context.paged_for, FALL_BACK), FALL_BACK_CAP)
    until = max(context.paged_until, now + length)
    return replace(context, attempts=0, paged_until=until, paged_for=length)


# The back-off of a reflector.

BASE_DELAY: Final = 0.8
"""Seconds of the first delay, before jitter; each is twice the previous one."""

LONGEST_DELAY: Final = 30.0
"""Maximum seconds of a delay, before jitter."""

JITTER: Final = 1.0
"""Each delay is multiplied by a random number in [1, 1 + `JITTER`)."""

RESET_AFTER: Final = 120.0
"""Seconds without failures after which the delays start again: more than the longest of them,
otherwise they would never grow."""

LONGEST_WAIT: Final = 60.0
"""Seconds; a longer `Retry-After` is cut to this, because a server may send any number."""


class RetryBackoff:
    """One back-off, shared by all failures of one reflector."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._step = BASE_DELAY
        self._quiet_since = math.inf  # there was no delay yet

    def delay(self, now: float, *, at_least: float = 0.0) -> float:
        """Return the seconds to wait from `now`, and increase the next delay.

        The time without failures counts from the end of the previous delay. Upstream counts from
        the previous reset and so shortens the delays during a series of failures (INF-30).

        Args:
            now: time of the clock.
            at_least: the server's `Retry-After`, in seconds.
        """
        if now - self._quiet_since >= RESET_AFTER:
            self._step = BASE_DELAY
        jittered = self._step * (1 + JITTER * self._rng.random())
        self._step = min(2 * self._step, LONGEST_DELAY)
        delay = max(jittered, min(at_least, LONGEST_WAIT))
        self._quiet_since = now + delay
        return delay


# What is counted and measured on the way, for health checks and metrics.


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
