"""Writes that are alike: what they came to, when one is tried again, and how many go at once."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from controller.kube.errors import KubeError, Paused, StatusError
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.runtime.kind import NAMESPACE_TERMINATING
from controller.runtime.plan import Delete, Failure, Plan, Target, Write, subresource_of, verb_of
from workqueue import Backoff

LONGEST_QUOTE: Final = 2048
"""Maximum characters of a server's words in a failure: half a condition's message, so that what
the operator adds, the remedy above all, is not cut off."""


class WriteOutcome(Enum):
    """The outcome of a write."""

    DONE = "done"
    CONFLICT = "conflict"  # a precondition failed: plan again, and report no failure
    NAME_CONFLICT = "name_conflict"  # the name belongs to another owner: plan again
    NAMESPACE_TERMINATING = "namespace_terminating"  # nothing can be created: do not retry
    FAILED = "failed"
    UNKNOWN = "unknown"  # the response was lost: the next reconcile finds out


class WriteResult(Struct, frozen=True):
    """One write and its outcome.

    Attributes:
        first: whether it is the first attempt in a row that fails.
    """

    write: Write
    outcome: WriteOutcome
    obj: KubeObject | None = None
    error: KubeError | None = None
    first: bool = False

    @property
    def failure(self) -> Failure | None:
        """The failure to report in the status; None after a success or if a new plan follows."""
        if self.error is None or self.outcome in {
            WriteOutcome.DONE,
            WriteOutcome.CONFLICT,
            WriteOutcome.NAME_CONFLICT,
        }:
            return None
        unknown = self.outcome is WriteOutcome.UNKNOWN
        asks_to_wait = (
            isinstance(self.error, StatusError | Paused) and self.error.retry_after is not None
        )
        if self.first and asks_to_wait and not unknown:
            return None  # nothing was done, and a moment in which a server is busy is no news
        return Failure(self.write, self.reason, quote(self.error), unknown=unknown)

    @property
    def reason(self) -> str:
        """The error in one word, the server's reason if there is one."""
        if self.outcome is WriteOutcome.NAMESPACE_TERMINATING:
            return NAMESPACE_TERMINATING
        if isinstance(self.error, StatusError) and self.error.status.reason:
            return self.error.status.reason
        return type(self.error).__name__


def quote(error: KubeError) -> str:
    """Return the words of an error, cut at the end if they are too long."""
    words = str(error)
    return words if len(words) <= LONGEST_QUOTE else f"{words[: LONGEST_QUOTE - 3]}..."


# Decides when what has failed is tried again: the one rule of waiting.
#
# Creates of the same resource and scope are alike, and so are deletes: one failure predicts the
# others. Any other write is a group of its own, the status too. Once groups of an object have
# failed, they wait 1, 2, 4 ... 30 s, then one of them is tried with a single write, in turn. Its
# success releases all groups, and an edit ends the wait. Groups that did not fail are sent as
# planned. So an object with ten failures costs as few requests as one with a single failure,
# whatever events arrive meanwhile. A group of deletes tries another object each time, and failed
# ones come last, because the server may refuse to delete one object only.

Group: TypeAlias = "tuple[str, Resource[Any], str, str]"
"""Verb, resource and scope; for updates also the name."""

WAITS: Final = Backoff(base=1.0, cap=30.0)
"""No event reports the end of most failures, such as a larger quota, so the cap bounds how long it
stays unnoticed."""

_AT_ONCE: Final = frozenset(
    {WriteOutcome.CONFLICT, WriteOutcome.NAME_CONFLICT, WriteOutcome.UNKNOWN}
)


@dataclass(slots=True)
class FailedGroups:
    """The groups of one object whose last write failed, the least recently tried first.

    Attributes:
        generation: generation of the object; its change releases all groups.
        failures: the last failure of each group, None if it was a conflict, which is not reported.
        tries: attempts in a row of which one write failed.
        wait: seconds from this attempt to the next one; None if nothing has failed in it.
        turn: the group that is to be tried in this reconcile.
        waiting: the groups that are not.
        undeleted: the objects whose deletion has failed, the one tried longest ago first.
    """

    generation: int
    rng: random.Random
    failures: dict[Group, Failure | None] = field(default_factory=dict["Group", "Failure | None"])
    tries: int = 0
    wait: float | None = None
    due: float = -math.inf
    turn: Group | None = None
    waiting: set[Group] = field(default_factory=set["Group"])
    undeleted: list[Target] = field(default_factory=list["Target"])

    def begin(
        self,
        plan: Plan,
        generation: int,
        always: Collection[Group],
        repeated: Collection[Group],
        now: float,
        *,
        unanswered: Collection[Group] = (),
    ) -> None:
        """Choose the group of this reconcile; forget what is not written any more.

        Besides the groups of the plan count those that do not depend on it (`always`), those with
        creates or deletes that are sent again (`repeated`), and those of writes without an answer,
        which a plan leaves out for that: the wait of a change that is lost again and again goes on.
        """
        commit = () if plan.commit is None else ((plan.commit,),)
        stages = [{group_of(write) for write in stage} for stage in (*commit, *plan.stages)]
        independent = {group_of(write) for write in plan.independent}
        free = {*always, *repeated}
        planned = free.union(unanswered, independent, *stages)
        if generation != self.generation:
            self.generation, self.tries, self.due = generation, 0, -math.inf
            self.failures.clear()
            self.undeleted.clear()
        targets: set[Target] = set()
        if self.failures or self.undeleted:
            targets = {write.target for write in chain(*plan.stages, plan.independent)}
            self.undeleted = [each for each in self.undeleted if each in targets]
        self.failures = {
            group: last
            for group, last in self.failures.items()
            if group in planned and (group in repeated or not _was_found(group, last, targets))
        }
        first = next((stage for stage in stages if stage & self.failures.keys()), set[Group]())
        if not (commit and first is stages[0]):
            first = first | independent
        possible = first | free if now >= self.due else ()
        self.turn = next((group for group in self.failures if group in possible), None)
        self.waiting = self.failures.keys() - {self.turn}
        self.wait = None

    def end(self) -> None:
        """Forget the group that had its turn if nothing of it was to be written."""
        if self.turn is not None:
            self.failures.pop(self.turn, None)
        if not self.failures:
            self.tries, self.due = 0, -math.inf

    def holds(self, write: Write) -> bool:
        """Return whether the group of this write waits for its turn."""
        return group_of(write) in self.waiting

    def last_failure(self, write: Write) -> Failure | None:
        """Return how the group of this write failed, as a failure of it; None for a conflict."""
        last = self.failures.get(group_of(write))
        return last and replace(last, write=write)

    def probe(self, writes: Sequence[Write]) -> Write | None:
        """Return the write that tries the failed group, if it is among these; it is sent first."""
        tried = self.in_order(writes)
        return next((write for write in tried if group_of(write) == self.turn), None)

    def in_order(self, writes: Sequence[Write]) -> list[Write]:
        """Return the writes in order, with failed deletes at the end."""
        if not self.undeleted:
            return list(writes)
        ranks = {target: rank for rank, target in enumerate(self.undeleted)}
        return sorted(writes, key=lambda write: ranks.get(write.target, -1))

    @property
    def is_first_attempt(self) -> bool:
        """True if no earlier attempt has failed since all was well."""
        return self.tries == (self.wait is not None)

    def ended(self, result: WriteResult, now: float) -> None:
        """Record the outcome of a write: its group waits, or its success releases all."""
        write = result.write
        self.record(group_of(write), result.outcome, result.failure, now)
        if isinstance(write, Delete) and result.outcome is not WriteOutcome.DONE:
            rest = [each for each in self.undeleted if each != write.target]
            self.undeleted = [*rest, write.target]

    def record(
        self, group: Group, outcome: WriteOutcome, failure: Failure | None, now: float
    ) -> None:
        """Record the outcome of one request of a group."""
        was_tried = group == self.turn
        if was_tried:
            self.turn = None
        if outcome is not WriteOutcome.DONE:
            self.failures.pop(group, None)
            self.failures[group] = failure
            self.due = next_try(self, outcome, now)
        elif was_tried:
            last = self.failures.pop(group)
            if last is not None and subresource_of(last.write) != "status":
                self.waiting.clear()
                self.failures.clear()


def _was_found(group: Group, last: Failure | None, targets: Collection[Target]) -> bool:
    """Return whether the store has shown since that an unanswered create or delete was done.

    What is planned anew was not done, as a live read has told: it waits as a failure.
    """
    was_unknown = last is not None and last.unknown and last.write.target not in targets
    return was_unknown and group[0] in {"create", "delete"}


def next_try(groups: FailedGroups, outcome: WriteOutcome, now: float) -> float:
    """Return the clock time from which a write that has failed in this attempt may be tried again.

    What fails in one attempt has one wait. A first conflict has none, because it is planned anew,
    nor has a first lost answer. A group that fails while others wait has their next time.
    """
    if groups.wait is None:
        if now < groups.due:
            return groups.due
        groups.tries += 1
        past = groups.tries - 1 - (outcome in _AT_ONCE)
        jitter = 1 + WAITS.jitter * groups.rng.random()
        groups.wait = WAITS.delay(past) * jitter if past >= 0 else 0.0
    return now + groups.wait


def group_of(write: Write) -> Group:
    """Return the group of a write."""
    verb, target = verb_of(write), write.target
    return verb, target.resource, target.scope, target.name if verb == "update" else ""


# Creates and deletes objects in growing steps: 1, 2, 4, ... at once.
#
# A quota or an admission webhook that refuses every create or delete then costs a few requests
# instead of a thousand.

MAX_WIDTH = 64
"""Maximum writes of one group that are sent at once."""


class SlowStart:
    """The slow start of one plan, group by group.

    Args:
        widths: number of writes at once that each group reached in the plan's last batch.
    """

    def __init__(self, widths: Mapping[Group, int]) -> None:
        self._widths = dict(widths)
        self._failed: set[Group] = set()

    @property
    def widths(self) -> Mapping[Group, int]:
        """Width that each group has reached, for the next batch."""
        return self._widths

    def record_failure(self, write: Write) -> None:
        """Send no more writes in the group of this one."""
        self._failed.add(group_of(write))

    async def run(
        self, writes: Sequence[Write], send: Callable[[Sequence[Write]], Awaitable[None]]
    ) -> None:
        """Send all writes. The groups do not wait for each other.

        `send` sends some at once, and calls `record_failure` for each that has failed.
        """
        groups: dict[Group, list[Write]] = {}
        for write in writes:
            groups.setdefault(group_of(write), []).append(write)
        async with asyncio.TaskGroup() as tasks:
            for group, members in groups.items():
                tasks.create_task(self._run_group(group, members, send))

    async def _run_group(
        self,
        group: Group,
        writes: Sequence[Write],
        send: Callable[[Sequence[Write]], Awaitable[None]],
    ) -> None:
        while writes and group not in self._failed:
            width = self._widths.get(group, 1)
            await send(writes[:width])
            writes = writes[width:]
            self._widths[group] = min(2 * width, MAX_WIDTH)
