"""The execution of one plan, as a value: what the executor gets, and what it returns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.runtime.failed_groups import FailedGroups, WriteOutcome, WriteResult
from controller.runtime.plan import (
    Event,
    Failure,
    PhaseDuration,
    Plan,
    StatusPatch,
    Write,
    subresource_of,
    verb_of,
)
from controller.runtime.record import Owner, Record
from controller.runtime.repairs import Repairs
from controller.runtime.status import HeldChild, StatusHistory


class Result(Enum):
    """The controller's action on the key after a plan was carried out."""

    DONE = "done"  # nothing, or requeue after `requeue_after`
    MORE = "more"  # requeue at once: lookups answered, or more than one batch
    AGAIN = "again"  # requeue soon, without an error: a precondition failed, a name was taken
    WAIT = "wait"  # requeue after the wait of what is unknown
    FAILED = "failed"  # requeue after the wait of what failed


class PlanOutcome(msgspec.Struct, frozen=True):
    """The outcome of a plan.

    Attributes:
        requeue_after: seconds until the key must be reconciled again, None if only after an event.
        retry_after: seconds until writes that failed are tried again; None if none did.
        ask_after: seconds until an object is to be read live; None if the caches can tell.
        failures: writes that did not succeed, the first cause first.
        error: a sentence about the live read that failed, so that nothing was done; else empty.
    """

    result: Result
    requeue_after: float | None = None
    retry_after: float | None = None
    ask_after: float | None = None
    writes: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    failures: tuple[Failure, ...] = ()
    error: str = ""


class PlanExecution(msgspec.Struct, frozen=True):
    """One plan to carry out.

    Attributes:
        status_after: the status to write when these writes failed.
        held: its children whose deletion others hold up.
        failing: whether the plan only reports an error.
        overdue: returns the writes of earlier plans whose outcome is still unknown.
        first_write: called before the first write is sent, if there is one.
    """

    owner: Owner
    resource: Resource[Any]
    primary: KubeObject
    plan: Plan
    status_after: Callable[[tuple[Failure, ...]], StatusPatch | None]
    emit: Callable[[Event], None]
    wall: Callable[[], datetime]
    submit: Callable[[], None] = lambda: None
    held: tuple[HeldChild, ...] = ()
    failing: bool = False
    overdue: Callable[[], tuple[Failure, ...]] = lambda: ()
    first_write: Callable[[], None] = lambda: None
    measure: Callable[[PhaseDuration], None] = lambda _phase: None


# Creates and deletes objects in growing steps: 1, 2, 4, ... at once.
#
# A quota or an admission webhook that refuses every create or delete then costs a few requests
# instead of a thousand.

MAX_WIDTH = 64
"""Maximum writes of one group that are sent at once."""

SlowStartGroup: TypeAlias = "tuple[str, Resource[Any], str]"
"""Verb, resource and scope: writes that are alike, so that one failure predicts the others."""


class SlowStart:
    """The slow start of one plan, group by group.

    Args:
        widths: number of writes at once that each group reached in the plan's last batch.
    """

    def __init__(self, widths: Mapping[SlowStartGroup, int]) -> None:
        self._widths = dict(widths)
        self._failed: set[SlowStartGroup] = set()

    @property
    def widths(self) -> Mapping[SlowStartGroup, int]:
        """Width that each group has reached, for the next batch."""
        return self._widths

    def record_failure(self, write: Write) -> None:
        """Send no more writes in the group of this one."""
        self._failed.add(_group_of(write))

    async def run(
        self, writes: Sequence[Write], send: Callable[[Sequence[Write]], Awaitable[None]]
    ) -> None:
        """Send all writes. The groups do not wait for each other.

        `send` sends some at once, and calls `record_failure` for each that has failed.
        """
        groups: dict[SlowStartGroup, list[Write]] = {}
        for write in writes:
            groups.setdefault(_group_of(write), []).append(write)
        async with asyncio.TaskGroup() as tasks:
            for group, members in groups.items():
                tasks.create_task(self._run_group(group, members, send))

    async def _run_group(
        self,
        group: SlowStartGroup,
        writes: Sequence[Write],
        send: Callable[[Sequence[Write]], Awaitable[None]],
    ) -> None:
        while writes and group not in self._failed:
            width = self._widths.get(group, 1)
            await send(writes[:width])
            writes = writes[width:]
            self._widths[group] = min(2 * width, MAX_WIDTH)


def _group_of(write: Write) -> SlowStartGroup:
    return verb_of(write), write.target.resource, write.target.scope


# The results so far of one execution: writes, failures, and what follows for the key.


@dataclass(slots=True)
class ExecutionRecord:
    """What one object's executions leave for the next one; it is dropped with the object.

    Attributes:
        widths: of the slow start, between two batches of one plan.
        failed_groups: writes that keep failing, None if none do.
        repairs: fields that other writers change back.
        refusals: the last refusal of each part of the object itself, without what varies.
        held: what was last reported of children that others hold, empty if none are.
    """

    status: StatusHistory = field(default_factory=StatusHistory)
    widths: Mapping[SlowStartGroup, int] = field(default_factory=dict["SlowStartGroup", int])
    failed_groups: FailedGroups | None = None
    repairs: Repairs = field(default_factory=Repairs)
    refusals: dict[str, str] = field(default_factory=dict[str, str])
    held: str = ""


def record_of(owner: Record) -> ExecutionRecord:
    """Return what earlier executions of an owner have left, made when it is asked for."""
    if owner.execution is None:
        owner.execution = ExecutionRecord()
    return owner.execution


class ExecutionState:
    """The results so far of one execution."""

    def __init__(
        self, execution: PlanExecution, owner: Record, failed_groups: FailedGroups
    ) -> None:
        self.execution = execution
        self.owner = owner
        self.record = record = record_of(owner)
        self.slow_start, record.widths = SlowStart(record.widths), {}
        self.failed_groups = failed_groups
        self.primary = execution.primary
        self.ended = False
        self.has_committed_status = False
        self.more = False
        self.learned = False  # what an earlier write came to
        self.count = 0
        self.repairs_wait: float | None = None  # seconds
        self.lacks_object = False  # that is not created yet because others keep deleting it
        self.failures: list[Failure] = []
        self.silent: dict[int, Failure] = {}  # writes without an answer so far, by their id
        self.report_of_silence: asyncio.Task[float | None] | None = None
        self.events: list[Event] = []  # of its writes
        self._verbs: Counter[str] = Counter()
        self._outcomes: set[WriteOutcome] = set()

    @property
    def stopped(self) -> bool:
        """True if no further stage may begin."""
        return self.lacks_object or bool(self._outcomes - {WriteOutcome.DONE})

    @property
    def failing(self) -> bool:
        """True if the status reports a failure."""
        return self.execution.failing or bool(self.failures_to_report)

    @property
    def names_failure(self) -> bool:
        """True if the status names a failure, and not just one that may resolve in a moment."""
        return self.execution.failing or any(
            not failure.may_resolve for failure in self.failures_to_report
        )

    @property
    def failures_to_report(self) -> tuple[Failure, ...]:
        """The failures of this execution, and earlier ones whose outcome is still unknown."""
        overdue = {failure.write.target: failure for failure in self.execution.overdue()}
        own = tuple(
            overdue.pop(failure.write.target, failure) if failure.unknown else failure
            for failure in self.failures_in_order
        )
        return (*own, *overdue.values())

    @property
    def failures_in_order(self) -> tuple[Failure, ...]:
        """The failures in the order of the plan, so that the first is the same each time."""
        plan = self.execution.plan
        planned = [*(write for stage in plan.stages for write in stage), *plan.independent]
        order = {id(write): number for number, write in enumerate(planned)}
        failures = [*self.failures, *self.silent.values()]
        return tuple(sorted(failures, key=lambda failure: order.get(id(failure.write), -1)))

    def write_started(self, write: Write) -> None:
        """Count a write that is about to be sent."""
        if not self.count:
            self.execution.first_write()
        self.count += 1
        self._verbs[_verb(write)] += 1

    def write_ended(self, result: WriteResult, now: float) -> WriteResult:
        """Record the result of a write at `now`, clock time, and return it."""
        result = replace(result, first=self.failed_groups.is_first_attempt)
        failure = result.failure
        is_quiet = failure is None and result.outcome is WriteOutcome.FAILED  # like a conflict
        self._outcomes.add(WriteOutcome.CONFLICT if is_quiet else result.outcome)
        self.silent.pop(id(result.write), None)
        if result.outcome is not WriteOutcome.DONE:
            self.slow_start.record_failure(result.write)
        if failure is not None:
            self.failures.append(failure)
        if result.outcome is not WriteOutcome.UNKNOWN or failure is not None:
            self.failed_groups.ended(result, now)
        if result.obj is not None and result.obj.metadata.uid == self.primary.metadata.uid:
            self.primary = result.obj
        return result

    def write_held(self, write: Write) -> Failure | None:
        """Record a write that is not tried this time, because it has failed before."""
        failure = self.failed_groups.last_failure(write)
        self._outcomes.add(WriteOutcome.FAILED if failure else WriteOutcome.CONFLICT)
        self.slow_start.record_failure(write)
        if failure is not None and subresource_of(write) != "status":
            self.failures.append(failure)
        return failure

    def write_undone(self, failure: Failure | None) -> None:
        """Report a create that was carried out, and whose object others keep deleting."""
        if failure is not None:
            self.failures.append(failure)

    def outcome(self, requeue_after: float | None, now: float) -> PlanOutcome:
        """Return the outcome at `now`, clock time; `requeue_after` in seconds."""
        groups = self.failed_groups
        return PlanOutcome(
            self._next(),
            requeue_after,
            (0.0 if self.learned else max(0.0, groups.due - now)) if groups.failures else None,
            writes=dict(self._verbs),
            failures=self.failures_in_order,
        )

    def _next(self) -> Result:
        if WriteOutcome.FAILED in self._outcomes:
            return Result.FAILED
        if self._outcomes & {WriteOutcome.CONFLICT, WriteOutcome.NAME_CONFLICT}:
            return Result.AGAIN
        if WriteOutcome.UNKNOWN in self._outcomes:
            return Result.WAIT
        if WriteOutcome.NAMESPACE_TERMINATING in self._outcomes:
            # An object that a deleted owner waits for will never exist.
            return Result.AGAIN if self.execution.primary.metadata.terminating else Result.DONE
        if self.more or self.learned:
            return Result.MORE
        return Result.WAIT if self.failed_groups.failures else Result.DONE


def _verb(write: Write) -> str:
    """Return the verb for metrics: updates are divided into those of the status and others."""
    verb = verb_of(write)
    if verb != "update":
        return verb
    return subresource_of(write) or "patch"


# Replaces many similar events with one, so that their number does not grow with the pods.
#
# Each event is a request and a line in `kubectl describe`, and the spam filter passes only 25 about
# one object at once: a thousand events about created pods would hide all others.

MAX_JOINED = 4
"""Maximum similar events of one reconcile whose notes are joined; more are only counted."""


def aggregate_events(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of one reconcile; similar ones become one, with all notes or a count."""
    like: dict[Event, list[Event]] = {}
    for event in events:
        kind = replace(event, note="") if event.aggregate_note else event
        like.setdefault(kind, []).append(event)
    for kind, members in like.items():
        if not kind.aggregate_note:
            yield from members
        elif len(members) > MAX_JOINED:
            yield replace(kind, note=kind.aggregate_note.replace("{count}", str(len(members))))
        else:
            yield replace(kind, note="; ".join(each.note for each in members))
