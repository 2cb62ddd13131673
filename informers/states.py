"""The states of a reflector, what can happen in them, and which state follows.

    Streaming --synced--> Watching <--synced-- Listing
        |                  |    ^                 ^
        |                  |    '-- again         |
        '---- fall back ---|----------------------'
                           '-- relist --> Streaming or Listing

Everything here is a value or a pure function; `reflector.py` only carries it out. `ON_ERROR` is
the total table from error to action (INF-14, INF-23).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

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

if TYPE_CHECKING:
    from informers.settings import ReflectorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a reflector has learnt about its server. Every state carries it on.

    Attributes:
        at_quorum: the revision we hold is of no use to the server: ask without one (INF-2).
        paginates: the server cut a cached list into pages, so it has no cache (INF-4b).
        attempts: streaming lists that broke off in a row.
        paged_until: time until which streaming lists are left alone.
        paged_for: length of the latest such period, 0 if streaming works.
        internal_errors: first and latest InternalError of the present series.
    """

    at_quorum: bool = False
    paginates: bool = False
    attempts: int = 0
    paged_until: float = float("-inf")
    paged_for: float = 0.0
    internal_errors: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Reading a paged list. Left when it is complete or failed."""

    memory: Memory


@dataclass(frozen=True, slots=True)
class Streaming:
    """Reading initial events into a temporary store. Left at their end bookmark."""

    memory: Memory


@dataclass(frozen=True, slots=True)
class Watching:
    """The store is complete and follows the stream. Left when the stream cannot be resumed."""

    memory: Memory


Active: TypeAlias = Listing | Streaming | Watching


@dataclass(frozen=True, slots=True)
class BackingOff:
    """Waiting for `delay` seconds before `then`."""

    then: Active
    delay: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """Never started, or ended for good."""


State: TypeAlias = Active | BackingOff | Stopped


@dataclass(frozen=True, slots=True)
class Synced:
    """The store was replaced by a complete list. `paginated`: one from the cache had pages."""

    paginated: bool = False


@dataclass(frozen=True, slots=True)
class Stale:
    """A list is older than what we held: refused."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The stream ended cleanly after `lived` seconds; `progressed`: it told something new."""

    lived: float
    progressed: bool


@dataclass(frozen=True, slots=True)
class Silent:
    """The idle watchdog hung up (INF-24). `quiet_for`: since the last event, None without one."""

    quiet_for: float | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """A request failed, or a stream did: `started` tells which."""

    error: SourceError
    started: bool = False
    lived: float = 0.0
    progressed: bool = False


Outcome: TypeAlias = Synced | Stale | Ended | Silent | Broken


class Action(Enum):
    """What to do next."""

    WATCH = "follow the stream from the revision held"
    AGAIN = "the same once more, at once"
    AGAIN_LATER = "the same once more, after a delay"
    ESCALATE = "the same without a revision: at once, or after a delay if it had none"
    FALL_BACK = "a paged list, at once, and no streaming list for a while"
    FEW_TIMES = "AGAIN_LATER, but FALL_BACK when the attempts are used up"
    IN_WINDOW = "AGAIN while inside the window for internal errors, then RELIST"
    AS_ENDED = "as if the stream had ended cleanly"
    RELIST = "a list from the revision held, after a delay"


class OnError(NamedTuple):
    """One row: the action by what the reflector was doing."""

    listing: Action
    streaming: Action
    starting: Action
    """A watch was refused."""
    watching: Action
    """A watch broke, or carried an ERROR event."""


_A = Action
ON_ERROR: dict[type[SourceError], OnError] = {
    # error                    listing       streaming       starting        watching
    ConnectionRefused: OnError(_A.RELIST, _A.AGAIN_LATER, _A.AGAIN_LATER, _A.AGAIN_LATER),
    Throttled: OnError(_A.RELIST, _A.AGAIN_LATER, _A.AGAIN_LATER, _A.AGAIN_LATER),
    Disconnected: OnError(_A.RELIST, _A.FEW_TIMES, _A.AGAIN_LATER, _A.AS_ENDED),
    Expired: OnError(_A.ESCALATE, _A.ESCALATE, _A.RELIST, _A.RELIST),
    ResourceVersionTooLarge: OnError(_A.ESCALATE, _A.ESCALATE, _A.RELIST, _A.RELIST),
    Unsupported: OnError(_A.RELIST, _A.FALL_BACK, _A.RELIST, _A.RELIST),
    InternalError: OnError(_A.RELIST, _A.FALL_BACK, _A.RELIST, _A.IN_WINDOW),
    Malformed: OnError(_A.RELIST, _A.FALL_BACK, _A.RELIST, _A.AS_ENDED),
    Failed: OnError(_A.RELIST, _A.FALL_BACK, _A.RELIST, _A.RELIST),
    SourceError: OnError(_A.RELIST, _A.FALL_BACK, _A.RELIST, _A.RELIST),
}

_HEALTHY = 60.0
"""Seconds without InternalError after which its window opens anew."""


@dataclass(frozen=True, slots=True)
class Transition:
    """What follows.

    Attributes:
        state: the next active state.
        delayed: whether to back off first.
        at_least: shortest delay, from Retry-After.
        cause: one word for statistics.
    """

    state: Active
    cause: str
    delayed: bool = False
    at_least: float = 0.0


def first_state(settings: ReflectorSettings) -> Active:
    """Where a reflector begins."""
    return _synchronise(Memory(), float("-inf"), settings)


def step(state: Active, outcome: Outcome, now: float, settings: ReflectorSettings) -> Transition:
    """What follows from `outcome` in `state` at time `now`."""
    memory = _learn(state, outcome, now)
    action = _resolve(decide(state, outcome, settings), memory, now, settings)
    return Transition(
        state=_follow(action, state, memory, now, settings),
        cause=_cause(outcome, action),
        delayed=action in {Action.AGAIN_LATER, Action.RELIST},
        at_least=outcome.error.retry_after if isinstance(outcome, Broken) else 0.0,
    )


def decide(state: Active, outcome: Outcome, settings: ReflectorSettings) -> Action:
    """The action that the tables name, AS_ENDED resolved."""
    match outcome:
        case Synced():
            return Action.WATCH
        case Stale():
            return Action.ESCALATE
        case Silent():
            return Action.AGAIN if isinstance(state, Watching) else Action.FALL_BACK
        case Broken(error, started):
            row = next(ON_ERROR[kind] for kind in type(error).__mro__ if kind in ON_ERROR)
            action = _column(row, state, started=started)
            return _ended(state, outcome, settings) if action is Action.AS_ENDED else action
        case Ended():
            return _ended(state, outcome, settings)


def _resolve(action: Action, memory: Memory, now: float, settings: ReflectorSettings) -> Action:
    """Replace the actions that depend on what went before by ones that do not."""
    match action:
        case Action.ESCALATE if memory.at_quorum:
            return Action.AGAIN_LATER
        case Action.FEW_TIMES:
            left = settings.streaming_attempts - memory.attempts
            return Action.AGAIN_LATER if left > 0 else Action.FALL_BACK
        case Action.IN_WINDOW:
            inside = _inside_window(memory, now, settings)
            return Action.AGAIN if inside else Action.RELIST
        case _:
            return action


def _follow(
    action: Action, state: Active, memory: Memory, now: float, settings: ReflectorSettings
) -> Active:
    match action:
        case Action.WATCH:
            return Watching(memory)
        case Action.ESCALATE:
            return replace(state, memory=replace(memory, at_quorum=True))
        case Action.FALL_BACK:
            return Listing(_leave_streaming(memory, now, settings))
        case Action.RELIST:
            return _synchronise(memory, now, settings)
        case _:
            return replace(state, memory=memory)


def _cause(outcome: Outcome, action: Action) -> str:
    match outcome:
        case Broken(error):
            return type(error).__name__
        case Ended() if action is Action.RELIST:
            return "short watch"
        case _:
            return type(outcome).__name__.lower()


def _column(row: OnError, state: Active, *, started: bool) -> Action:
    match state:
        case Listing():
            return row.listing
        case Streaming():
            return row.streaming
        case Watching():
            return row.watching if started else row.starting


def _ended(state: Active, outcome: Ended | Broken, settings: ReflectorSettings) -> Action:
    """A stream that ends before the end bookmark is not one; a useless watch is an error."""
    if not isinstance(state, Watching):
        return Action.FALL_BACK
    if outcome.lived < settings.short_watch and not outcome.progressed:
        return Action.RELIST
    return Action.AGAIN


def _learn(state: Active, outcome: Outcome, now: float) -> Memory:
    memory = state.memory
    match outcome:
        case Synced(paginated):
            return replace(
                memory,
                at_quorum=False,
                attempts=0,
                paginates=memory.paginates or paginated,
                paged_for=0.0 if isinstance(state, Streaming) else memory.paged_for,
            )
        case Broken(Disconnected()) if isinstance(state, Streaming):
            return replace(memory, attempts=memory.attempts + 1)
        case Broken(InternalError()):
            first, latest = memory.internal_errors or (now, now)
            first = now if now - latest >= _HEALTHY else first
            return replace(memory, internal_errors=(first, now))
        case _:
            return memory


def _synchronise(memory: Memory, now: float, settings: ReflectorSettings) -> Active:
    if settings.streaming and now >= memory.paged_until:
        return Streaming(memory)
    return Listing(memory)


def _leave_streaming(memory: Memory, now: float, settings: ReflectorSettings) -> Memory:
    length = min(max(2 * memory.paged_for, settings.fall_back), settings.fall_back_cap)
    return replace(memory, attempts=0, paged_until=now + length, paged_for=length)


def _inside_window(memory: Memory, now: float, settings: ReflectorSettings) -> bool:
    first, _ = memory.internal_errors or (now, now)
    return settings.internal_error_window > 0 and now - first <= settings.internal_error_window
