"""Limits the requests to all dashboards together: how many at a time, and how many a second.

A dashboard that accepts connections and never answers holds its slot until the time limit. Heads
whose last request got no response therefore share a quarter of the slots, and heads that were
never asked share a half. A head that has just answered always finds a slot.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import TimerHandle
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime
from enum import Enum
from typing import Generic, TypeVar

from controller.ray.dashboard.client import DashboardClient
from controller.ray.dashboard.commands import (
    CommandExpired,
    CommandOutcome,
    CommandQueue,
    PendingCommand,
)
from controller.ray.dashboard.metrics import DashboardMetrics
from controller.ray.dashboard.probe_state import FailureStreak, ProbeSchedule
from controller.ray.dashboard.probes import Probe, ProbeObservation
from controller.ray.dashboard.values import BACKOFF, Head, Subscriber
from informers import Clock

K = TypeVar("K", bound=Hashable)

CLOCK_RESOLUTION = 0.001
"""Seconds by which an event may be handled early.

An event loop calls back up to a tick of its clock early. Without this margin an event that is not
yet due would be scheduled again for the same moment, over and over.
"""


class Responsiveness(Enum):
    """The result of the last request to a dashboard."""

    RESPONSIVE = "responsive"  # there was a response
    UNKNOWN = "unknown"  # there was no request yet
    UNRESPONSIVE = "unresponsive"  # there was no response


_DIVISORS = {
    Responsiveness.RESPONSIVE: 1,
    Responsiveness.UNKNOWN: 2,
    Responsiveness.UNRESPONSIVE: 4,
}
"""Heads of each responsiveness may hold the slots divided by this number."""


class _Lane(Generic[K]):
    """Waiting heads of the same responsiveness, the urgent ones first."""

    def __init__(self) -> None:
        self.urgent: OrderedDict[K, None] = OrderedDict()
        self.ordinary: OrderedDict[K, None] = OrderedDict()
        self.busy = 0

    def __len__(self) -> int:
        return len(self.urgent) + len(self.ordinary)

    def pop(self) -> K:
        queue = self.urgent or self.ordinary
        return queue.popitem(last=False)[0]


class RequestSlots(Generic[K]):
    """Gives slots to waiting heads, taking turns among heads of different responsiveness.

    Args:
        clock: the running loop.
        concurrency: the number of slots.
        rate: slots given a second.
        burst: slots that may be given ahead of the rate.
        start: called with the head that gets a slot; must not call back before it returns. Returns
            False if the head no longer needs a slot.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        concurrency: int,
        rate: float,
        burst: int,
        start: Callable[[K, Responsiveness], bool],
    ) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._spacing = 1 / rate
        self._ahead = burst / rate
        self._start = start
        self._lanes: dict[Responsiveness, _Lane[K]] = {each: _Lane() for each in Responsiveness}
        self._scheduled_until = 0.0
        self._timer: TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """The number of heads that wait for a slot."""
        return sum(map(len, self._lanes.values()))

    @property
    def busy(self) -> dict[Responsiveness, int]:
        """The number of slots in use."""
        return {each: lane.busy for each, lane in self._lanes.items()}

    def enqueue(self, head: K, responsiveness: Responsiveness, *, urgent: bool) -> None:
        """Let a head wait for a slot. A waiting head can only become urgent."""
        lane = self._lanes[responsiveness]
        if urgent:
            lane.ordinary.pop(head, None)
            lane.urgent[head] = None
        elif head not in lane.urgent:
            lane.ordinary[head] = None
        self._start_next()

    def discard(self, head: K) -> None:
        """Remove a waiting head."""
        for lane in self._lanes.values():
            lane.urgent.pop(head, None)
            lane.ordinary.pop(head, None)

    def release(self, responsiveness: Responsiveness) -> None:
        """Give back a slot that `start` was called with."""
        self._lanes[responsiveness].busy -= 1
        self._start_next()

    def close(self) -> None:
        """Give no more slots."""
        for lane in self._lanes.values():
            lane.urgent.clear()
            lane.ordinary.clear()
        self._cancel_timer()

    def _start_next(self) -> None:
        while (responsiveness := self._next_lane()) is not None:
            now = self._clock.time()
            if self._scheduled_until - now > self._ahead + CLOCK_RESOLUTION:
                self._start_timer(self._scheduled_until - self._ahead)
                return
            lane = self._lanes.pop(responsiveness)
            self._lanes[responsiveness] = lane  # the other lanes come before it the next time
            lane.busy += 1
            if self._start(lane.pop(), responsiveness):
                self._scheduled_until = max(self._scheduled_until, now) + self._spacing
            else:
                lane.busy -= 1

    def _next_lane(self) -> Responsiveness | None:
        """Return the next lane in turn that has a waiting head and a free slot."""
        return next(
            (each for each, lane in self._lanes.items() if lane and self._has_room(each)), None
        )

    def _has_room(self, responsiveness: Responsiveness) -> bool:
        busy = self.busy
        share = max(1, self._concurrency // _DIVISORS[responsiveness])
        return sum(busy.values()) < self._concurrency and busy[responsiveness] < share

    def _start_timer(self, when: float) -> None:
        if self._timer is None:
            self._timer = self._clock.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._start_next()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# The probes and commands of one head incarnation, and their results.
#
# Bookkeeping only: no task is created here, no timer set and no request sent.


class HeadActor:
    """One head incarnation.

    It has at most one request in flight, so that no response can be older than a command that ended
    before it. Methods that end commands return the objects to enqueue.

    Attributes:
        head: the head incarnation.
        probes: its probes.
        commands: its commands.
        client: the client of the dashboard; None until it is needed.
        task: task of the request in flight.
        under_way: the command or probe of that request.
        silence: consecutive requests that got no response.
        responsiveness: result of the last request.
        rests_until: loop time before which no request is sent.
        queued: whether it waits for a slot.
        closed: whether its last subscription and its last command have ended.
    """

    def __init__(self, head: Head, metrics: DashboardMetrics) -> None:
        self._metrics = metrics
        self.head = head
        self.probes = ProbeSchedule()
        self.commands = CommandQueue()
        self.client: DashboardClient | None = None
        self.task: asyncio.Task[None] | None = None
        self.under_way: PendingCommand | Probe | None = None
        self.silence = FailureStreak()
        self.responsiveness = Responsiveness.UNKNOWN
        self.rests_until = -math.inf
        self.queued = False
        self.closed = False

    @property
    def idle(self) -> bool:
        """True if it has neither a probe nor an open command."""
        return not self.probes and not self.commands

    @property
    def failing(self) -> bool:
        """True if the dashboard has been silent for long enough to be reported."""
        return self.silence.decisive

    def observation(self, probe: Probe) -> ProbeObservation | None:
        """Return the observation of the probe; None if it has no subscriber."""
        state = self.probes.get(probe)
        return None if state is None else state.observation(self.silence)

    # Subscriptions and commands.

    def unsubscribe(self, probe: Probe, subscriber: Subscriber, now: float) -> None:
        """End a subscription; an object's last one takes the outcomes of its commands along."""
        if not self.probes.unsubscribe(probe, subscriber):
            return
        for pending in self.commands.forget(subscriber):
            if pending.command.needs_subscriber:
                self._give_up(pending, "given up because no object waits for it any more", now)

    def add_command(self, pending: PendingCommand, now: float, wall: datetime) -> list[Subscriber]:
        """Open a command, and end those that it supersedes."""
        command = pending.command
        reason = f"superseded by a {command.name} command"
        ended: list[Subscriber] = []
        for each in self.commands.superseded_by(command):
            ended += self._give_up(each, reason, now)
        self.commands.add(pending, now)
        self.probes.invalidate(command.invalidates, wall)
        return ended

    def drop_commands(self, controller: str, now: float) -> None:
        """End the open commands of a controller without an outcome."""
        for pending in self.commands.of_controller(controller):
            self.commands.remove(pending)
            self.probes.release(pending.command.invalidates, now)

    # What to do when.

    def next_due(self) -> float:
        """Return the loop time of the next request; infinite if there is none."""
        return max(min(self.commands.next_due(), self.probes.next_due()), self.rests_until)

    def urgent(self, now: float) -> bool:
        """Return whether a command is due."""
        return self.commands.next_due() <= now

    def next_request(self, now: float) -> PendingCommand | Probe | None:
        """Return the request that is due now: commands come before probes."""
        if self.commands.next_due() <= now:
            return self.commands.pop()
        if self.probes.next_due() <= now:
            return self.probes.pop()
        return None

    def expire(self, now: float) -> list[Subscriber]:
        """End the commands whose deadline has passed."""
        ended: list[Subscriber] = []
        for pending in self.commands.pop_expired(now):
            ended += self._expire(pending, now)
        return ended

    # How a request went.

    def retry(self, pending: PendingCommand, now: float) -> list[Subscriber]:
        """Repeat a command without a definite response later, or end it."""
        if pending.given_up or pending.expires_at <= now:
            return self._expire(pending, now)
        self.commands.retry(pending, now + BACKOFF.delay(pending.failures - 1))
        return []

    def finish(
        self, pending: PendingCommand, outcome: CommandOutcome, now: float
    ) -> list[Subscriber]:
        """End a command. An object that still subscribes can read the outcome.

        The expiry of a command that reverts others is not kept, so that it can be submitted again.
        """
        subscribed = self.probes.has_subscriber(pending.subscriber)
        again = pending.command.reverts and isinstance(outcome, CommandExpired)
        self.commands.remove(pending, outcome if subscribed and not again else None)
        self.probes.release(pending.command.invalidates, now)
        self._metrics.record_command(pending.command.name, outcome.name)
        return [pending.subscriber] if subscribed else []

    def record_silence(self, began: datetime, error: str, now: float, stretch: float) -> bool:
        """Record a request without response; return whether the dashboard now counts as failing.

        No request is sent during the back-off, which is `stretch` times as long as usual.
        """
        decisive = self.silence.add(began, error)
        self.rests_until = now + BACKOFF.delay(self.silence.length - 1) * stretch
        self.responsiveness = Responsiveness.UNRESPONSIVE
        return decisive

    def record_response(self, *, usable: bool) -> bool:
        """Record a response; return whether the dashboard was failing until now.

        An unusable response to one probe is no success of the others: their streaks of failures
        continue.
        """
        self.responsiveness = Responsiveness.RESPONSIVE
        self.rests_until = -math.inf
        if not usable and self.silence.length:
            for state in self.probes.states():
                state.failures.extend(self.silence)
        return self.silence.end()

    def _give_up(self, pending: PendingCommand, reason: str, now: float) -> Iterable[Subscriber]:
        pending.given_up = reason
        if self.commands.is_under_way(pending):
            return []  # it ends with that attempt
        return self._expire(pending, now)

    def _expire(self, pending: PendingCommand, now: float) -> list[Subscriber]:
        return self.finish(pending, CommandExpired(pending.expiry_message), now)
