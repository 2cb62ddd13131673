"""The probes and commands of one head incarnation, and their results.

Bookkeeping only: no task is created here, no timer set and no request sent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from controller.ray.dashboard.actors.slots import Responsiveness
from controller.ray.dashboard.commands.command import CommandExpired
from controller.ray.dashboard.commands.queue import CommandQueue
from controller.ray.dashboard.probes.failure_streak import FailureStreak
from controller.ray.dashboard.probes.schedule import ProbeSchedule

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable
    from datetime import datetime

    from controller.ray.dashboard.client.client import DashboardClient
    from controller.ray.dashboard.commands.command import CommandOutcome
    from controller.ray.dashboard.commands.pending import PendingCommand
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.metrics import RequestMetrics
    from controller.ray.dashboard.probes.observation import ProbeObservation
    from controller.ray.dashboard.probes.probe import Probe
    from controller.ray.dashboard.settings import DashboardSettings
    from controller.ray.dashboard.subscriber import Subscriber


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

    def __init__(self, head: Head, settings: DashboardSettings, metrics: RequestMetrics) -> None:
        self._backoff = settings.backoff
        self._metrics = metrics
        self.head = head
        self.probes = ProbeSchedule(settings)
        self.commands = CommandQueue()
        self.client: DashboardClient | None = None
        self.task: asyncio.Task[None] | None = None
        self.under_way: PendingCommand | Probe | None = None
        self.silence = FailureStreak(settings.failure_threshold)
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
        self.commands.retry(pending, now + self._backoff.delay(pending.failures - 1))
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
        self.rests_until = now + self._backoff.delay(self.silence.length - 1) * stretch
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
