"""The results so far of one execution: writes, failures, and what follows for the key."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controller.runtime.plan import Event, subresource_of, verb_of
from controller.runtime.reconcile.execution import PlanExecution, PlanOutcome, Result
from controller.runtime.reconcile.writes.result import WriteOutcome, WriteResult

if TYPE_CHECKING:
    import asyncio

    from controller.runtime.plan import Failure, Write
    from controller.runtime.reconcile.writes.failed_groups import FailedGroups
    from controller.runtime.reconcile.writes.slow_start import SlowStart


class ExecutionState:
    """The results so far of one execution."""

    def __init__(
        self, execution: PlanExecution, slow_start: SlowStart, failed_groups: FailedGroups
    ) -> None:
        self.execution = execution
        self.slow_start = slow_start
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

    def write_ended(self, result: WriteResult, now: float) -> None:
        """Record the result of a write at `now`, clock time."""
        self._outcomes.add(result.outcome)
        self.silent.pop(id(result.write), None)
        if result.outcome is not WriteOutcome.DONE:
            self.slow_start.record_failure(result.write)
        failure = result.failure
        if failure is not None:
            self.failures.append(failure)
        if result.outcome is not WriteOutcome.UNKNOWN or failure is not None:
            self.failed_groups.ended(result, now)
        if result.obj is not None and result.obj.metadata.uid == self.primary.metadata.uid:
            self.primary = result.obj

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
