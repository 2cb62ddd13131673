"""Everything about one head incarnation: what is asked of it, what is to be done, what it said.

Bookkeeping only: no task, no timer, no request. `DashboardActors` does those.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from controller.ray.dashboard.commands import CommandExpired
from controller.ray.dashboard.run import FailureStreak
from controller.ray.dashboard.slots import Responsiveness
from controller.ray.dashboard.watched import ProbeState
from workqueue import KeyHeap

if TYPE_CHECKING:
    import asyncio
    from datetime import datetime

    from controller.ray.dashboard.client import DashboardClient
    from controller.ray.dashboard.commands import Command, CommandOutcome
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.pending import CommandId, PendingCommand
    from controller.ray.dashboard.probes import Probe
    from controller.ray.dashboard.settings import DashboardSettings
    from controller.ray.dashboard.statistics import RequestMetrics
    from controller.ray.dashboard.subscriber import Subscriber


class HeadActor:
    """One head incarnation.

    It has at most one request under way, so that no answer can be older than a command that
    ended before it.

    Attributes:
        head: whose dashboard it is.
        client: the connection, once it was needed.
        task: the request under way.
        subject: what it is about.
        silence_streak: the run of requests that were not answered at all.
        responsiveness: what to expect of the next request.
        rests_until: loop time before which nothing is asked.
        queued: whether it waits for a slot.
        closed: whether its last interest and its last command have gone.
    """

    def __init__(self, head: Head, settings: DashboardSettings, metrics: RequestMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self.head = head
        self.client: DashboardClient | None = None
        self.task: asyncio.Task[None] | None = None
        self.subject: PendingCommand | Probe | None = None
        self.silence_streak = FailureStreak(settings.failure_threshold)
        self.responsiveness = Responsiveness.UNKNOWN
        self.rests_until = -math.inf
        self.queued = False
        self.closed = False
        self._probes: dict[Probe, ProbeState] = {}
        self._due_probes: KeyHeap[Probe] = KeyHeap()
        self._interests: Counter[Subscriber] = Counter()
        self._pending: dict[CommandId, PendingCommand] = {}
        self._due_commands: KeyHeap[CommandId] = KeyHeap()
        self._deadlines: KeyHeap[CommandId] = KeyHeap()
        self._invalidating: Counter[Probe] = Counter()  # by how many open commands
        self._outcomes: dict[CommandId, CommandOutcome] = {}
        self._ids: defaultdict[Subscriber, set[CommandId]] = defaultdict(set)

    # What is wanted.

    @property
    def idle(self) -> bool:
        """Whether nobody wants anything of it any more."""
        return not self._probes and not self._pending

    @property
    def probes(self) -> int:
        """How many probes it has."""
        return len(self._probes)

    @property
    def pending(self) -> int:
        """How many commands are open."""
        return len(self._pending)

    def subscribe(
        self,
        probe: Probe,
        subscriber: Subscriber,
        interval: float,
        now: float,
        wall: datetime,
    ) -> None:
        """An object is interested in a probe, or was looked at again: ask sooner."""
        watched = self._probes.get(probe)
        if watched is None:
            watched = self._probes[probe] = ProbeState(self._settings, now=now, wall=wall)
            self._schedule(probe, now)
        if subscriber not in watched.subscribers:
            self._interests[subscriber] += 1
        watched.subscribers[subscriber] = interval
        due = watched.expedite(now)
        if due is not None and probe in self._due_probes and self._due_probes.rank(probe) > due:
            self._due_probes.push(probe, due)

    def unsubscribe(self, probe: Probe, subscriber: Subscriber, now: float) -> None:
        """It is not any more. With its last interest its outcomes and submissions go."""
        watched = self._probes[probe]
        del watched.subscribers[subscriber]
        if not watched.subscribers:
            del self._probes[probe]
            self._due_probes.discard(probe)
        self._interests[subscriber] -= 1
        if not self._interests[subscriber]:
            del self._interests[subscriber]
            self._forget(subscriber, now)

    def drop_commands(self, controller: str, now: float) -> None:
        """Forget the open commands of a controller."""
        for pending in list(self._pending.values()):
            if pending.subscriber.controller == controller:
                self._close(pending, now)
                self._drop_id(pending)

    def knows(self, command_id: CommandId) -> bool:
        """Whether the command is open, or its outcome known."""
        return command_id in self._pending or command_id in self._outcomes

    def add_command(self, pending: PendingCommand, now: float, wall: datetime) -> list[Subscriber]:
        """Take on a command; whom to wake, because it ends another one."""
        command = pending.command
        woken = self._supersede(command, now)
        self._pending[pending.id] = pending
        self._ids[pending.subscriber].add(pending.id)
        self._due_commands.push(pending.id, now)
        self._deadlines.push(pending.id, pending.expires_at)
        for probe in command.invalidates:
            self._invalidating[probe] += 1
            if probe in self._probes:
                self._probes[probe].invalidate(wall)
                self._due_probes.discard(probe)
        return woken

    # What is known.

    def probe_state(self, probe: Probe) -> ProbeState | None:
        """The state of a probe."""
        return self._probes.get(probe)

    def outcome(self, command_id: CommandId) -> CommandOutcome | None:
        """How a command ended."""
        return self._outcomes.get(command_id)

    def subscribers(self) -> set[Subscriber]:
        """All objects interested in it."""
        return set(self._interests)

    # When to do what.

    def next_due(self) -> float:
        """Loop time of the next request; infinite if there is none to come."""
        due = min(_lowest(self._due_commands), _lowest(self._due_probes))
        return max(due, self.rests_until)

    def next_deadline(self) -> float:
        """Loop time at which the next command expires."""
        return _lowest(self._deadlines)

    def urgent(self, now: float) -> bool:
        """Whether a command is due."""
        return _lowest(self._due_commands) <= now

    def next_request(self, now: float) -> PendingCommand | Probe | None:
        """What to ask now: commands first."""
        if _lowest(self._due_commands) <= now:
            return self._pending[self._due_commands.pop()]
        if _lowest(self._due_probes) <= now:
            return self._due_probes.pop()
        return None

    def expire(self, now: float) -> list[Subscriber]:
        """End the commands whose time is up; whom to wake."""
        woken: list[Subscriber] = []
        while _lowest(self._deadlines) <= now:
            pending = self._pending[self._deadlines.pop()]
            if pending.id in self._due_commands:  # the one under way ends by itself
                woken += self.finish(pending, CommandExpired(pending.expiry_message), now)
        return woken

    # What became of it.

    def ask_again(self, probe: Probe, watched: ProbeState, now: float) -> None:
        """Schedule the next question, if it is still the same probe that is wanted."""
        if self._probes.get(probe) is watched:
            self._schedule(probe, watched.next_due(now))

    def try_again(self, pending: PendingCommand, now: float) -> list[Subscriber]:
        """A command got no definite answer; whom to wake if that was its last attempt."""
        again = now + self._settings.backoff.delay(pending.failures - 1)
        if pending.given_up or pending.expires_at <= now:
            return self.finish(pending, CommandExpired(pending.expiry_message), now)
        self._due_commands.push(pending.id, again)
        return []

    def finish(
        self, pending: PendingCommand, outcome: CommandOutcome, now: float
    ) -> list[Subscriber]:
        """A command has ended; whom to wake."""
        self._close(pending, now)
        self._metrics.record_command(pending.command.name, type(outcome).__name__.lower())
        if pending.subscriber not in self._interests:
            self._drop_id(pending)
            return []
        self._outcomes[pending.id] = outcome
        return [pending.subscriber]

    def note_silence(self, began: datetime, error: str, now: float, stretch: float) -> bool:
        """A request was not answered; whether the dashboard is failing from now on."""
        decisive = self.silence_streak.add(began, error)
        delay = self._settings.backoff.delay(self.silence_streak.length - 1)
        self.rests_until = now + delay * stretch
        self.responsiveness = Responsiveness.UNRESPONSIVE
        return decisive

    def note_answer(self, *, usable: bool) -> bool:
        """A request was answered; whether that ended a silence that counted.

        An answer that is of no use does not say that the others would fare better: their runs
        go on.
        """
        self.responsiveness = Responsiveness.RESPONSIVE
        self.rests_until = -math.inf
        if not usable and self.silence_streak.length:
            for watched in self._probes.values():
                watched.failures.extend(self.silence_streak)
        return self.silence_streak.end()

    def _schedule(self, probe: Probe, when: float) -> None:
        """Ask `probe` at `when`, not before the commands that invalidate it have ended."""
        if not self._invalidating[probe]:
            self._due_probes.push(probe, when)

    def _close(self, pending: PendingCommand, now: float) -> None:
        del self._pending[pending.id]
        self._due_commands.discard(pending.id)
        self._deadlines.discard(pending.id)
        for probe in pending.command.invalidates:
            self._invalidating[probe] -= 1
            if not self._invalidating[probe]:
                del self._invalidating[probe]
                if probe in self._probes:
                    self._schedule(probe, now)

    def _supersede(self, command: Command, now: float) -> list[Subscriber]:
        """Give up the open commands that a new one makes pointless; whom to wake."""
        woken: list[Subscriber] = []
        for pending in list(self._pending.values()):
            if command.supersedes(pending.command):
                woken += self._give_up(pending, f"superseded by a {command.name} command", now)
        return woken

    def _give_up(self, pending: PendingCommand, reason: str, now: float) -> list[Subscriber]:
        pending.given_up = reason
        if pending.id not in self._due_commands:
            return []  # under way: it ends with its attempt
        return self.finish(pending, CommandExpired(pending.expiry_message), now)

    def _forget(self, subscriber: Subscriber, now: float) -> None:
        """Nobody will read the outcomes of this object's commands."""
        for command_id in list(self._ids.get(subscriber, ())):
            pending = self._pending.get(command_id)
            if pending is None:
                del self._outcomes[command_id]
                self._ids[subscriber].discard(command_id)
            elif pending.command.needs_subscriber:
                self._give_up(pending, "given up because no object waits for it any more", now)
        if not self._ids.get(subscriber):
            self._ids.pop(subscriber, None)

    def _drop_id(self, pending: PendingCommand) -> None:
        ids = self._ids[pending.subscriber]
        ids.discard(pending.id)
        if not ids:
            del self._ids[pending.subscriber]


def _lowest(heap: KeyHeap[CommandId] | KeyHeap[Probe]) -> float:
    return heap.lowest() if heap else math.inf
