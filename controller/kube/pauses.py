"""Pauses that a server asks for, of one lane each, and requests that cannot succeed before."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from controller.kube.responses import (
    MAX_RETRY_AFTER,
    excerpt,
    parse_status,
    retry_after,
    sleep_until,
)

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Mapping

    from controller.kube.limits import Lane
    from controller.kube.responses import Response
    from informers import Clock

    Pair: TypeAlias = tuple[str, Lane]


# Holds requests back after the server has asked to wait.
#
# A 429 or 503 with `Retry-After` concerns one of two things, and its body says which. If it is a
# `Status`, the handler of the resource wrote it: an admission webhook that is busy, a resource
# whose storage is starting. Then only the *lane* of that request waits: verb, resource and
# namespace. If it is anything else, a filter in front of all handlers wrote it (API Priority and
# Fairness, the limit of requests in flight, a server that is shutting down), or a proxy did. Then
# everything waits, but only briefly: these filters ask for a second or a few.
#
# The headers `X-Kubernetes-PF-FlowSchema-UID` and `-PriorityLevel-UID` do not distinguish the two:
# a real API server sets them in every answer, including that of a webhook.

MAX_GENERAL_PAUSE = 10.0
"""Maximum seconds that all requests wait.

Priority and Fairness asks a client for up to 32 when the server stays overloaded; after ten, a few
requests may test whether it still is.
"""

REFUSED_READS = 3
"""Number of resources with refused reads that pauses all requests.

Reads pass no admission, so no tenant can cause this: the server itself is overloaded, or a proxy
that answers in JSON.
"""

_STATUSES = frozenset({429, 503})
_end = attrgetter("end")


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait until `end`, in the clock's time, and the server's message."""

    end: float
    reason: str = ""


class Pauses:
    """The pauses of one client. `MAX_RETRY_AFTER` bounds their number.

    Args:
        longest: seconds; a longer `Retry-After` is cut to this.
    """

    def __init__(self, clock: Clock, *, longest: float = MAX_RETRY_AFTER) -> None:
        self._clock = clock
        self._longest = longest
        self._general = Pause(clock.time())
        self._lanes: OrderedDict[Lane, Pause] = OrderedDict()  # the one set longest ago first

    def current(self, lane: Lane) -> Pause | None:
        """Return the pause that a request of `lane` must wait for, the longer of two."""
        longest = max(self._general, self._lanes.get(lane, self._general), key=_end)
        return longest if longest.end > self._clock.time() else None

    def remaining(self, lane: Lane) -> float:
        """Return the seconds for which requests of `lane` must wait, 0 if they need not."""
        pause = self.current(lane)
        return 0.0 if pause is None else pause.end - self._clock.time()

    async def wait(self, lane: Lane) -> None:
        """Wait until nothing pauses `lane`, including pauses that begin meanwhile."""
        while (pause := self.current(lane)) is not None:
            await sleep_until(self._clock, pause.end)

    def record(self, lane: Lane, answer: Response) -> None:
        """Begin or extend the pause that `answer` to a request of `lane` asks for, if any."""
        seconds = retry_after(answer.headers)
        if seconds is None or answer.status not in _STATUSES:
            return
        status = parse_status(answer)
        if status is None:
            self.pause_all(seconds, excerpt(answer.body))
            return
        self.pause_lane(lane, seconds, status.message)
        if not lane.writes and self._refused_reads() >= REFUSED_READS:
            self.pause_all(seconds, status.message)

    def pause_all(self, seconds: float, reason: str) -> None:
        """Let no request be sent for `seconds`; never shortens a pause."""
        end = self._clock.time() + min(seconds, MAX_GENERAL_PAUSE, self._longest)
        self._general = max(self._general, Pause(end, reason), key=_end)

    def pause_lane(self, lane: Lane, seconds: float, reason: str) -> None:
        """Let no request of `lane` be sent for `seconds`; never shortens a pause."""
        now = self._clock.time()
        pause = Pause(now + min(seconds, self._longest), reason)
        self._lanes[lane] = max(self._lanes.pop(lane, pause), pause, key=_end)
        while (oldest := next(iter(self._lanes))) is not lane and self._lanes[oldest].end <= now:
            del self._lanes[oldest]

    def paused(self) -> Mapping[tuple[str, str], int]:
        """Return the number of paused lanes by verb and resource.

        The key of a pause of all requests is `("all", "all")`.
        """
        now = self._clock.time()
        lanes = Counter((ln.verb, ln.resource) for ln, p in self._lanes.items() if p.end > now)
        if self._general.end > now:
            lanes["all", "all"] = 1
        return lanes

    def _refused_reads(self) -> int:
        """Return the number of resources with a paused lane of reads."""
        now = self._clock.time()
        return len({ln.resource for ln, p in self._lanes.items() if p.end > now and not ln.writes})


# Flows and lanes in which repeating a request was in vain.

MOST = 4096
"""Maximum pairs to remember; the oldest is dropped."""

FORGOTTEN_AFTER = 600.0
"""Seconds without such a request until a pair is forgotten: longer than any back-off."""


class Futile:
    """Remembers such pairs until `FORGOTTEN_AFTER`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[Pair, float] = {}  # the one that ends first is the first
        self._timer: TimerHandle | None = None

    def __contains__(self, pair: Pair) -> bool:
        """Return whether repeating a request of this flow and lane was in vain."""
        return pair in self._ends

    def add(self, pair: Pair) -> None:
        """Remember a pair, counting its time from now."""
        self.discard(pair)
        self._ends[pair] = self._clock.time() + FORGOTTEN_AFTER
        if len(self._ends) > MOST:
            del self._ends[next(iter(self._ends))]
        if self._timer is None:
            self._wait()

    def discard(self, pair: Pair) -> None:
        """Forget a pair if it is remembered."""
        self._ends.pop(pair, None)

    def _wait(self) -> None:
        """Set a timer for the first pair to be forgotten, if there is one."""
        first = next(iter(self._ends.values()), None)
        self._timer = None if first is None else self._clock.call_at(first, self._forget, first)

    def _forget(self, until: float) -> None:
        for pair in [pair for pair, end in self._ends.items() if end <= until]:
            del self._ends[pair]
        self._wait()
