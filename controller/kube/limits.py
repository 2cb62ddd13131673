"""The limits of requests: a rate for all, shared fairly between the owners of requests."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from controller.kube.errors import NotSent
from controller.kube.transport import Request, sleep_until
from informers import Clock

# Lanes: requests of one verb on one resource in one namespace, which succeed or fail alike.

_WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCES_OF_NAMESPACES = frozenset({"status", "finalize"})


class Lane(Struct, frozen=True):
    """The scope of an answer: the requests to which it applies.

    Attributes:
        verb: verb of RBAC: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
        resource: name for RBAC, with group and subresource: `rayclusters.ray.io/status`; the path
            itself if it belongs to no resource.
        namespace: empty for all namespaces and for cluster-scoped resources.
    """

    verb: str
    resource: str
    namespace: str = ""

    @property
    def writes(self) -> bool:
        """True if its requests pass admission, where any user's webhook may hang or refuse them."""
        return self.verb not in {"get", "list", "watch"}


def lane_of(request: Request) -> Lane:
    """Return the lane of a request."""
    group, rest = _split(request.path)
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in _SUBRESOURCES_OF_NAMESPACES:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", "", ""][:3]
    verb = _WRITES.get(request.method, "get" if name else "list")
    if request.watching:
        verb = "watch"
    if not plural:
        return Lane("get" if verb == "list" else verb, request.path)
    resource = f"{plural}.{group}" if group else plural
    return Lane(verb, f"{resource}/{subresource}" if subresource else resource, namespace)


def _split(path: str) -> tuple[str, list[str]]:
    """Return the API group in a path and the parts after the version; none for no resource."""
    match [part for part in path.split("/") if part]:
        case ["api", _, *rest]:
            return "", rest
        case ["apis", group, _, *rest]:
            return group, rest
        case _:
            return "", []


# A token bucket: limits requests a second, and bursts of requests.


class RateLimiter:
    """Admits requests in the order in which they ask.

    Args:
        qps: requests a second in the long run; more than 0.
        burst: requests that may be sent at once after a while without any; at least 1.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._interval = 1.0 / qps
        self._credit = (burst - 1) * self._interval
        self._clock = clock
        self._next = clock.time() - self._credit

    async def wait(self, deadline: float) -> None:
        """Wait for this request's turn.

        Raises:
            NotSent: the turn would come after `deadline`; it is given back.
        """
        now = self._clock.time()
        turn = max(self._next, now - self._credit)
        if turn > deadline:
            raise NotSent(
                f"not sent: by the limit of requests a second, its turn is in {turn - now:.1f} s"
            )
        self._next = turn + self._interval
        await sleep_until(self._clock, turn)


# Limits concurrent requests fairly: many requests, or hanging ones, delay no other flow.
#
# A plain semaphore is first come, first served, so that 64 creates of one object delay all others,
# and eighty requests that hang in an admission webhook delay everything. Slots are therefore
# bounded in four ways:
#
# - by *flow*, which is the object that a request is made for: a share of the slots at most, because
#   requests in flight queue up again inside the API server;
# - some are reserved for flows that hold few;
# - by namespace: its writes hold three quarters of them at most, so that one tenant's webhook that
#   begins to hang does not stop the other tenants;
# - by slowness: writes that hang, or whose flow's last write in the same lane did, hold a quarter
#   at most. Reads pass no admission, and are never counted as slow.
#
# Whether a write will hang is not known beforehand. One that hangs gives its slot back after a
# second, so that many that begin to hang at once delay others for a few seconds instead of until
# they end. The number of such writes is bounded too, because the API server has a seat for each of
# them.
#
# Requests without a flow are bounded by the slots alone. A slot that becomes free goes to the
# namespace, and in it to the flow, that has waited longest, for its next request only.

RESERVED_BELOW = 4
"""A flow that holds fewer slots than this may take one of the reserve."""

MAX_SHARE = 5
"""A flow holds at most one slot in this many; one in this many is reserved.

Of the 80 slots that a client has by default, 16 keep an API server on two cores as busy as 64 do,
and delay other flows a third as much. With 20 ms of latency they create 800 pods a second.
"""

NAMESPACE_SHARE = 0.75
"""Maximum part of the slots for the writes of one namespace."""

SLOW_SHARE = 0.25
"""Maximum part of the slots for writes that are known to be slow."""

SLOW_AFTER = 1.0
"""Seconds after which a write counts as slow. Working webhooks answer in a fraction of that."""

LENT_FACTOR = 2
"""Maximum hanging writes that have given their slots back, as a multiple of the slots.

With 80 slots, 240 requests are in flight at most. By default, API Priority and Fairness has 245 of
600 seats for service accounts (`workload-low`); what is beyond them waits in the API server.
"""

_MARGIN = 0.001
"""Seconds added to each timer, so that rounding never makes it fire too early."""

_MOST_REMEMBERED = 10_000
"""Maximum slow flows to remember, by lane; beyond it the oldest counts as quick again."""


class _Group(NamedTuple):
    """Requests that wait in the same queue."""

    namespace: str
    writes: bool
    slow: bool


@dataclass(slots=True, eq=False)
class Slot:
    """A request that waits for a slot or holds one."""

    flow: str
    lane: Lane
    group: _Group
    slow: bool
    lent: bool = False
    granted: asyncio.Future[None] | None = None
    since: float = 0.0


_Flows: TypeAlias = "OrderedDict[str, deque[Slot]]"


class FairLimiter:
    """A bounded number of slots."""

    def __init__(self, slots: int, clock: Clock) -> None:
        self._clock = clock
        self._slots = self._free = slots
        self._share = slots // MAX_SHARE
        self._namespace_share = max(1, int(slots * NAMESPACE_SHARE))
        self._slow_share = max(1, int(slots * SLOW_SHARE))
        self._held: Counter[str] = Counter()
        self._writes: Counter[str] = Counter()  # in flight, by namespace
        self._slow = 0  # writes in flight
        self._lent = 0  # slow writes in flight that have given their slots back
        self._most_lent = LENT_FACTOR * slots
        self._timer: asyncio.TimerHandle | None = None
        self._quick: dict[Slot, None] = {}  # writes in flight that are not slow yet, by age
        self._slow_flows: OrderedDict[tuple[str, Lane], None] = OrderedDict()
        self._waiting: OrderedDict[_Group, _Flows] = OrderedDict()  # the next one first

    @property
    def in_flight(self) -> int:
        """The number of requests in flight: slots that are held, or were given back early."""
        return self._slots - self._free + self._lent

    @property
    def slow(self) -> int:
        """The number of slow writes in flight."""
        self._find_slow()
        return self._slow

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return sum(len(turns) for flows in self._waiting.values() for turns in flows.values())

    async def acquire(self, flow: str, lane: Lane, deadline: float) -> Slot:
        """Wait for a slot, take it for `flow`, which may be empty, and return it for `release`.

        Raises:
            TimeoutError: none was free before `deadline`, a time of the clock.
        """
        slow = (flow, lane) in self._slow_flows
        group = _Group(lane.namespace, lane.writes, slow) if flow else _Group("", False, False)
        request = Slot(flow, lane, group, slow)
        self._grant_all()
        if flow not in self._waiting.get(group, ()) and self._may_take(flow, group):
            self._grant(request)
            return request
        request.granted = asyncio.get_running_loop().create_future()
        flows = self._waiting.setdefault(group, OrderedDict())
        flows.setdefault(flow, deque()).append(request)
        self._set_timer()
        try:
            async with asyncio.timeout(deadline - self._clock.time()):
                await request.granted
        except (asyncio.CancelledError, TimeoutError):
            if request.granted.cancelled():
                self._leave(request)
            else:
                self.release(request)  # granted while this task was being cancelled
            raise
        return request

    def release(self, request: Slot) -> None:
        """Give a slot back, which the next request takes."""
        _decrease(self._held, request.flow)
        if request.group.writes:
            self._end_write(request)
        if request.lent:
            self._lent -= 1
        else:
            self._free += 1
        self._grant_all()

    def _grant_all(self) -> None:
        """Grant the free slots to waiting requests."""
        self._find_slow()
        while self._waiting and (following := self._next()) is not None:
            self._serve(*following)
        if self._waiting:
            self._set_timer()

    def _set_timer(self) -> None:
        """Look again when the oldest write becomes slow, if a request waits for its slot."""
        if self._timer is not None or not (self._waiting and self._quick):
            return
        oldest = next(iter(self._quick))
        delay = oldest.since + SLOW_AFTER + _MARGIN - self._clock.time()
        self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._grant_all()

    def _next(self) -> tuple[_Group, str] | None:
        """Return the group and the flow that get the next slot, None if none can have it."""
        if self._free:
            for group, flows in self._waiting.items():
                if self._has_room(group):
                    for flow in flows:
                        if self._may_take(flow, group):
                            return group, flow
        return None

    def _serve(self, group: _Group, flow: str) -> None:
        """Grant a slot, and move group and flow behind all others if they wait for more."""
        flows = self._waiting.pop(group)
        turns = flows.pop(flow)
        request = turns.popleft()
        if turns:
            flows[flow] = turns
        if flows:
            self._waiting[group] = flows
        assert request.granted is not None
        if not request.granted.done():
            self._grant(request)
            request.granted.set_result(None)

    def _leave(self, request: Slot) -> None:
        """Stop waiting."""
        flows = self._waiting.get(request.group, OrderedDict())
        turns = flows.get(request.flow, deque())
        if request not in turns:
            return
        turns.remove(request)
        if not turns:
            del flows[request.flow]
        if not flows:
            del self._waiting[request.group]

    def _grant(self, request: Slot) -> None:
        request.since = self._clock.time()
        self._free -= 1
        self._held[request.flow] += 1
        if request.group.writes:
            self._writes[request.lane.namespace] += 1
            if request.slow:
                self._slow += 1
            else:
                self._quick[request] = None

    def _end_write(self, request: Slot) -> None:
        self._find_slow()
        if not request.lent:
            _decrease(self._writes, request.lane.namespace)
        if request.slow:
            self._slow -= 1
        else:
            del self._quick[request]
        key = (request.flow, request.lane)
        self._slow_flows.pop(key, None)
        if self._clock.time() - request.since >= SLOW_AFTER:
            self._slow_flows[key] = None
            if len(self._slow_flows) > _MOST_REMEMBERED:
                self._slow_flows.popitem(last=False)

    def _find_slow(self) -> None:
        """Count writes as slow that have been in flight for too long."""
        horizon = self._clock.time() - SLOW_AFTER
        while self._quick and (oldest := next(iter(self._quick))).since <= horizon:
            del self._quick[oldest]
            oldest.slow = True
            self._slow += 1
            self._lend(oldest)

    def _lend(self, request: Slot) -> None:
        """Take back the slot of a hanging write, for other requests."""
        if self._lent < self._most_lent:
            request.lent = True
            self._lent += 1
            self._free += 1
            _decrease(self._writes, request.lane.namespace)

    def _may_take(self, flow: str, group: _Group) -> bool:
        if not flow:
            return self._free > 0
        held = self._held[flow]
        if held < RESERVED_BELOW:
            return self._free > 0 and self._has_room(group)
        return (
            held < self._share
            and self._free > self._share
            and self._has_room(group, but=self._share)
        )

    def _has_room(self, group: _Group, *, but: int = 0) -> bool:
        """Return whether a request of `group` may be sent; spare `but` slots of its namespace."""
        if not group.writes:
            return True
        self._find_slow()
        if group.slow and self._slow >= self._slow_share:
            return False
        return self._writes[group.namespace] + but < self._namespace_share


def _decrease(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]
