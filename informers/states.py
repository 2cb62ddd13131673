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
from enum import Enum
from typing import NamedTuple, TypeAlias

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
from informers.settings import ReflectorSettings


class ReflectorContext(Struct, frozen=True, kw_only=True):
    """A reflector's knowledge of its server; passed from state to state.

    Attributes:
        at_quorum: the server cannot use the held revision: request without one (INF-2).
        paginates: the server split a cached list into pages, so it has no cache (INF-4b).
        attempts: consecutive streaming lists that broke.
        paged_until: time until which streaming lists are not used.
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


def first_state(settings: ReflectorSettings) -> ActiveState:
    """Return the initial state of a reflector."""
    return _initial_sync(ReflectorContext(), -math.inf, settings)


def step(
    state: ActiveState, outcome: ReadOutcome, now: float, settings: ReflectorSettings
) -> ReflectorTransition:
    """Return the transition that follows from `outcome` in `state` at time `now`."""
    context = _updated_context(state, outcome, now)
    action = _resolve(decide(state, outcome, settings), state, context, settings)
    delayed = action in {RecoveryAction.RETRY_LATER, RecoveryAction.RELIST}
    return ReflectorTransition(
        state=_follow(action, state, context, now, settings),
        cause=_cause(outcome, action),
        delayed=delayed or (isinstance(outcome, Rewound) and context.rewound_again),
        at_least=outcome.error.retry_after if isinstance(outcome, Broken) else 0.0,
    )


def decide(state: ActiveState, outcome: ReadOutcome, settings: ReflectorSettings) -> RecoveryAction:
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
            return _ended(state, outcome, settings) if action is RecoveryAction.AS_ENDED else action
        case Ended():
            return _ended(state, outcome, settings)


def _resolve(
    action: RecoveryAction,
    state: ActiveState,
    context: ReflectorContext,
    settings: ReflectorSettings,
) -> RecoveryAction:
    """Replace actions that depend on the context by ones that do not."""
    match action:
        case RecoveryAction.ESCALATE if context.at_quorum and isinstance(state, Streaming):
            return RecoveryAction.FALL_BACK
        case RecoveryAction.ESCALATE if context.at_quorum:
            return RecoveryAction.RETRY_LATER
        case RecoveryAction.RETRY_FEW_TIMES:
            left = settings.streaming_attempts - context.attempts
            return RecoveryAction.RETRY_LATER if left > 0 else RecoveryAction.FALL_BACK
        case _:
            return action


def _follow(
    action: RecoveryAction,
    state: ActiveState,
    context: ReflectorContext,
    now: float,
    settings: ReflectorSettings,
) -> ActiveState:
    match action:
        case RecoveryAction.WATCH:
            return Watching(context)
        case RecoveryAction.ESCALATE:
            return replace(state, context=replace(context, at_quorum=True))
        case RecoveryAction.FALL_BACK:
            return Listing(_leave_streaming(context, now, settings))
        case RecoveryAction.RELIST:
            return _initial_sync(context, now, settings)
        case RecoveryAction.RELIST_AT_QUORUM:
            if context.rewound_again:
                context = _leave_streaming(context, now, settings)
            return _initial_sync(replace(context, at_quorum=True), now, settings)
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


def _ended(
    state: ActiveState, outcome: Ended | Broken, settings: ReflectorSettings
) -> RecoveryAction:
    """Treat a stream without end bookmark as unsupported, and a useless watch as an error.

    What could not be read comes again if the watch begins at the same place.
    """
    if not isinstance(state, Watching):
        return RecoveryAction.FALL_BACK
    repeats = isinstance(outcome, Broken) and isinstance(outcome.error, Malformed)
    if (repeats or outcome.lived < settings.short_watch) and not outcome.progressed:
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


def _initial_sync(
    context: ReflectorContext, now: float, settings: ReflectorSettings
) -> ActiveState:
    if settings.streaming and now >= context.paged_until:
        return Streaming(context)
    return Listing(context)


def _leave_streaming(
    context: ReflectorContext, now: float, settings: ReflectorSettings
) -> ReflectorContext:
    length = min(max(2 * context.paged_for, settings.fall_back), settings.fall_back_cap)
    return replace(context, attempts=0, paged_until=now + length, paged_for=length)
