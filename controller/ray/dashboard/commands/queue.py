"""The commands of one head: the open ones, their due times, and the outcomes of the others."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from workqueue import KeyHeap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.dashboard.commands.command import Command, CommandOutcome
    from controller.ray.dashboard.commands.pending import CommandId, PendingCommand
    from controller.ray.dashboard.subscriber import Subscriber


class CommandQueue:
    """The commands of one head. Times are in seconds of the loop's clock.

    A command is open from `add` to `remove`. While an attempt is in flight it is open and not due.
    """

    def __init__(self) -> None:
        self._open: dict[CommandId, PendingCommand] = {}
        self._due: KeyHeap[CommandId] = KeyHeap()
        self._deadlines: KeyHeap[CommandId] = KeyHeap()
        self._outcomes: dict[CommandId, CommandOutcome] = {}
        self._reverting: dict[CommandId, str] = {}
        self._ids: defaultdict[Subscriber, set[CommandId]] = defaultdict(set)

    def __len__(self) -> int:
        """Return the number of open commands."""
        return len(self._open)

    def __contains__(self, command_id: CommandId) -> bool:
        """Return whether the command is open or its outcome known."""
        return command_id in self._open or command_id in self._outcomes

    def outcome(self, command_id: CommandId) -> CommandOutcome | None:
        """Return the outcome of a command; None while it is open, unknown or forgotten."""
        return self._outcomes.get(command_id)

    def add(self, pending: PendingCommand, now: float) -> None:
        """Open a command; its first attempt is due at once.

        If it reverts older commands of its name, their outcomes are forgotten.
        """
        if pending.command.reverts:
            self._forget_reverted(pending)
        self._open[pending.id] = pending
        self._ids[pending.subscriber].add(pending.id)
        self._due.push(pending.id, now)
        self._deadlines.push(pending.id, pending.expires_at)

    def remove(self, pending: PendingCommand, outcome: CommandOutcome | None = None) -> None:
        """End a command. Without an `outcome` it is forgotten."""
        del self._open[pending.id]
        self._due.discard(pending.id)
        self._deadlines.discard(pending.id)
        if outcome is None:
            self._drop_id(pending.subscriber, pending.id)
            return
        self._outcomes[pending.id] = outcome
        if pending.command.reverts:
            self._reverting[pending.id] = pending.command.name

    def retry(self, pending: PendingCommand, when: float) -> None:
        """Make another attempt at `when`."""
        self._due.push(pending.id, when)

    def next_due(self) -> float:
        """Return the time of the next attempt; infinite if none is due."""
        return self._due.lowest() if self._due else math.inf

    def next_deadline(self) -> float:
        """Return the time at which the next command expires; infinite if none is open."""
        return self._deadlines.lowest() if self._deadlines else math.inf

    def is_under_way(self, pending: PendingCommand) -> bool:
        """Return whether an attempt of an open command is in flight."""
        return pending.id not in self._due

    def pop(self) -> PendingCommand:
        """Take the command whose attempt has been due longest."""
        return self._open[self._due.pop()]

    def pop_expired(self, now: float) -> Iterator[PendingCommand]:
        """Yield commands past their deadline, apart from one in flight, which ends by itself."""
        while self.next_deadline() <= now:
            pending = self._open[self._deadlines.pop()]
            if not self.is_under_way(pending):
                yield pending

    def superseded_by(self, command: Command) -> list[PendingCommand]:
        """Return the open commands that a new one makes pointless."""
        return [each for each in self._open.values() if command.supersedes(each.command)]

    def of_controller(self, controller: str) -> list[PendingCommand]:
        """Return the open commands of a controller."""
        return [each for each in self._open.values() if each.of(controller)]

    def forget(self, subscriber: Subscriber) -> list[PendingCommand]:
        """Drop the outcomes of an object's commands; return those that are open."""
        still_open: list[PendingCommand] = []
        for command_id in list(self._ids.get(subscriber, ())):
            pending = self._open.get(command_id)
            if pending is None:
                self._drop_outcome(subscriber, command_id)
            else:
                still_open.append(pending)
        return still_open

    def _forget_reverted(self, pending: PendingCommand) -> None:
        name = pending.command.name
        for command_id in [each for each, of in self._reverting.items() if of == name]:
            self._drop_outcome(pending.subscriber, command_id)

    def _drop_outcome(self, subscriber: Subscriber, command_id: CommandId) -> None:
        del self._outcomes[command_id]
        self._reverting.pop(command_id, None)
        self._drop_id(subscriber, command_id)

    def _drop_id(self, subscriber: Subscriber, command_id: CommandId) -> None:
        ids = self._ids[subscriber]
        ids.discard(command_id)
        if not ids:
            del self._ids[subscriber]
