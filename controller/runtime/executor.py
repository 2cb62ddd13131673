"""Carries out a plan: lookups, commit, commands, stages, independent writes, status, events.

Only the execution of a plan awaits anything. It is bounded by the time limits of its requests and
by the size of a batch. Creates start slowly; the next batch of the same plan continues at the
width that the last one reached.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from controller.apimachinery.patches import holds_list
from controller.apimachinery.redaction import fold
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.runtime.execution import (
    ExecutionState,
    LookupReader,
    PlanExecution,
    PlanOutcome,
    Result,
    UnknownWrites,
)
from controller.runtime.expectations import Expectations
from controller.runtime.failed_groups import (
    FailedGroups,
    WriteOutcome,
    WriteResult,
    group_of,
)
from controller.runtime.plan import (
    Create,
    Event,
    Failure,
    MergePatch,
    StatusPatch,
    Target,
    Write,
    aggregate_events,
    subject_of,
    subresource_of,
    verb_of,
)
from controller.runtime.repairs import (
    CONTESTED_FIELDS,
    CONTESTED_REASON,
    FORGOTTEN_AFTER,
    Repair,
    sentences_of,
    with_contested,
)
from controller.runtime.status import (
    conditions_in,
    event_of_held_children,
    named_children,
    stored_status,
    with_held_children,
)
from controller.runtime.writer import Writer

BATCH = 64
"""Maximum writes of one reconcile; the next reconcile carries out the rest of the plan."""

FAILED_UPDATE = "FailedUpdate"
"""Reason of the event that the object itself cannot be written."""

FAILED_READ = "FailedRead"
"""Reason of the event and the condition when a plan's live read failed."""


class Executor:
    """Carries out plans.

    Its only state is in the record of each object.

    Args:
        expectations: what the owner must find out.
        now: monotonic seconds.
    """

    def __init__(
        self,
        writer: Writer,
        lookups: LookupReader,
        expectations: Expectations,
        *,
        now: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._writer = writer
        self._lookups = lookups
        self._expectations = expectations
        self._now = now
        self._rng = rng
        self._unknown = UnknownWrites(writer, lookups, on_silence=self._on_silence)

    async def execute(self, execution: PlanExecution) -> PlanOutcome:
        """Carry out one plan, or the first batch of it."""
        if execution.plan.lookups:
            return await self._look_up(execution)
        generation = execution.primary.metadata.generation
        record = self._expectations.record(execution.owner.uid)
        failed_groups = record.failed_groups or FailedGroups(generation, self._rng)
        questions = record.questions(self._now())
        status = group_of(_status_write(execution.resource, execution.primary, {}))
        reads = "get", execution.resource, "", ""
        repeated = {group_of(write) for write in questions.repeats}
        failed_groups.begin(
            execution.plan,
            generation,
            {status, reads},
            repeated,
            self._now(),
            unanswered={group_of(each.write) for each in record.writes.values()},
        )
        run = ExecutionState(execution, record, failed_groups, self._now)
        for event in execution.plan.events:
            execution.emit(event)
        try:
            if questions.repeats or questions.reads:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._unknown.repeat(run, questions.repeats))
                    tasks.create_task(self._unknown.read(run, questions.reads, reads))
                    await self._write(run)
            else:
                await self._write(run)
            if run.report_of_silence is not None:
                await run.report_of_silence
        finally:
            if run.report_of_silence is not None:
                run.report_of_silence.cancel()
            for event in aggregate_events(run.events):
                execution.emit(event)
        requeue_after = execution.plan.requeue_after
        if not run.ended:
            requeue_after = await self._status(run)
        failed_groups.end()
        record.failed_groups = failed_groups if failed_groups.failures else None
        questions = record.questions(self._now())
        ask_after = (
            questions.wait if not questions.reads or reads in failed_groups.failures else 0.0
        )
        outcome = replace(run.outcome(requeue_after), ask_after=ask_after)
        if outcome.result is Result.MORE:
            record.widths = run.slow_start.widths
        return outcome

    def forget_pruned_fields(self, uid: str) -> None:
        """Forget an object's pruned fields: a changed definition may store them."""
        self._expectations.record(uid).status.pruned = {}

    async def _look_up(self, execution: PlanExecution) -> PlanOutcome:
        async with asyncio.TaskGroup() as group:
            reads = [
                (lookup, group.create_task(self._lookups.look_up(execution.owner, lookup)))
                for lookup in execution.plan.lookups
            ]
        notes = [
            f"cannot read {subject_of(lookup)}, so nothing is done: {error}"
            for lookup, task in reads
            if (error := task.result()) is not None
        ]
        for note in notes:
            execution.emit(Event("Warning", FAILED_READ, "Reconcile", note, quotes=True))
        if notes:
            return PlanOutcome(Result.FAILED, execution.plan.requeue_after, error=notes[0])
        return PlanOutcome(Result.MORE)

    async def _commit(self, run: ExecutionState) -> bool:
        """Write the commit; return whether the stages may follow."""
        commit = run.execution.plan.commit
        if commit is None:
            return True
        of_status = subresource_of(commit) == "status"  # what would tell that it has failed
        if self._must_wait(run, commit):
            return False
        if run.failed_groups.holds(commit):
            failure = run.write_held(commit)
            run.ended = of_status or failure is None or failure.unknown
            return False
        result = await self._write_primary(run, commit)
        if of_status or result.outcome is WriteOutcome.UNKNOWN or result.failure is None:
            run.ended = result.outcome is not WriteOutcome.DONE
        if result.outcome is WriteOutcome.DONE and of_status:
            run.record.status.written_at = self._now()
            run.has_committed_status = True
        return result.outcome is WriteOutcome.DONE

    async def _write(self, run: ExecutionState) -> None:
        """Write what is planned, but the status."""
        if await self._commit(run):
            run.execution.submit()
            await self._stages(run)
            due = self._due(run, run.execution.plan.independent)
            independent = await self._probe(run, due)
            await self._concurrently(run, independent)

    async def _stages(self, run: ExecutionState) -> None:
        for stage in run.execution.plan.stages:
            stage = self._due(run, stage)  # noqa: PLW2901  what need not wait
            capacity = BATCH - run.count
            if len(stage) > capacity:
                run.more = True
                stage = stage[:capacity]  # noqa: PLW2901  the part of it that fits
            stage = await self._probe(run, stage)  # noqa: PLW2901  what is left of it
            await self._concurrently(run, [w for w in stage if verb_of(w) == "update"])
            for verb in ("delete", "create"):
                alike = [write for write in stage if verb_of(write) == verb]
                await run.slow_start.run(alike, partial(self._concurrently, run))
            if run.more or run.stopped:
                return

    def _due(self, run: ExecutionState, writes: tuple[Write, ...]) -> tuple[Write, ...]:
        """Return the writes without repairs that would be repeated too soon."""
        for write in writes:
            disowned = run.record.is_disowned(write)
            run.record.repairs.plan(write, self._now(), disowned=disowned)
        return tuple(write for write in writes if not self._must_wait(run, write))

    async def _probe(self, run: ExecutionState, writes: tuple[Write, ...]) -> tuple[Write, ...]:
        """Try a group that has failed before by one write; return the writes that may follow."""
        probe = run.failed_groups.probe(writes)
        if probe is not None:
            await self._perform(run, probe)
        left: list[Write] = []
        for write in writes:
            if write is probe:
                continue
            if run.failed_groups.holds(write):
                run.write_held(write)
            else:
                left.append(write)
        return tuple(run.failed_groups.in_order(left))

    async def _concurrently(self, run: ExecutionState, writes: Sequence[Write]) -> None:
        async with asyncio.TaskGroup() as group:
            for write in writes:
                group.create_task(self._perform(run, write))

    async def _perform(self, run: ExecutionState, write: Write) -> WriteResult:
        if run.record.is_repetition(write):
            result = WriteResult(write, WriteOutcome.UNKNOWN)
            run.write_ended(result)
            return result
        repairs = run.record.repairs
        if unnamed := repairs.unnamed(write, self._now()):  # before they are made once more
            await self._name_other_writers(run, write, unnamed)
        run.write_started(write)
        result = await self._writer.perform(
            run.execution.owner, write, on_silence=partial(self._on_silence, run)
        )
        result = run.write_ended(result)
        if result.outcome is WriteOutcome.DONE:
            if write.on_success is not None:
                run.events.append(write.on_success)
            repairs.record(write, self._now())
            run.write_undone(repairs.undone(write))
        return result

    async def _name_other_writers(
        self, run: ExecutionState, write: Write, repairs: Sequence[Repair]
    ) -> None:
        """Find out who changes these fields of one object back; one event tells of them all."""
        paths = [repair.path for repair in repairs]
        writers = await self._lookups.other_writers(repairs[0].target, paths)
        for repair, writer in zip(repairs, writers, strict=True):
            repair.writer = writer
        action, note = verb_of(write).capitalize(), sentences_of(repairs)
        run.events.append(
            Event("Warning", CONTESTED_REASON, action, note, aggregate_note=CONTESTED_FIELDS)
        )

    def _on_silence(self, run: ExecutionState, failure: Failure) -> None:
        """Report a write without a response at once: it may never get one."""
        if _is_primary(run, failure.write):
            self._report_unwritable(run, failure)
            return
        run.silent[id(failure.write)] = failure
        if run.report_of_silence is None:
            run.report_of_silence = asyncio.create_task(self._status(run), name="silence")

    def _must_wait(self, run: ExecutionState, write: Write) -> bool:
        """Return whether the write repeats an undone repair and must not be sent yet."""
        repairs = run.record.repairs
        if (wait := repairs.wait(write, self._now())) <= 0:
            return False
        run.repairs_wait = _sooner(run.repairs_wait, wait)
        run.lacks_object |= isinstance(write, Create)
        run.write_undone(repairs.undone(write))
        return True

    async def _write_primary(self, run: ExecutionState, write: Write) -> WriteResult:
        """Write the object itself; report a refusal with an event."""
        result = await self._perform(run, write)
        if result.outcome is WriteOutcome.DONE:
            run.record.refusals.pop(_part_of(write), None)
            return result
        for failure in run.failures_to_report:
            if failure.write.target == write.target and not failure.may_resolve:
                self._report_unwritable(run, failure)
        return result

    def _report_unwritable(self, run: ExecutionState, failure: Failure) -> None:
        """Report a refusal by an event, once: the status cannot report it."""
        part, text = _part_of(failure.write), fold(failure.message)
        if run.record.refusals.get(part) == text:
            return
        run.record.refusals[part] = text
        note = (
            f"cannot write the {part} of this object, so what it shows is out of date: "
            f"{failure.reason}: {failure.message}; the operator tries again"
        )
        run.execution.emit(Event("Warning", FAILED_UPDATE, "Update", note))

    async def _status(self, run: ExecutionState) -> float | None:
        """Write the status if it differs; return the seconds until the next reconcile is due.

        A status that reports failures follows from the observation and would undo what a commit
        has stored since. The reconcile that the commit causes reports them.
        """
        execution = run.execution
        requeue_after = execution.plan.requeue_after
        failures = () if run.has_committed_status else run.failures_to_report
        status = execution.status_after(failures) if failures else execution.plan.status
        requeue_after = _sooner(requeue_after, run.repairs_wait)
        contested = run.record.repairs.contested(self._now())
        if contested:
            requeue_after = _sooner(requeue_after, FORGOTTEN_AFTER)
        now = execution.wall()
        held = named_children(execution.held, now)
        for child in execution.held:
            if (rest := child.seconds_until_named(now)) > 0:
                requeue_after = _sooner(requeue_after, rest)
        self._report_held(run, held)
        if (contested or held) and _may_be_written(run):
            status = status or _present_conditions(run.primary)
        if status is None:
            return requeue_after
        requeue_after = _sooner(requeue_after, status.valid_for)
        generation = run.primary.metadata.generation
        wanted = with_contested(status.wanted, contested, generation, now)
        wanted = with_held_children(wanted, held, generation, now)
        due = run.record.status.decide(
            run.primary, status, wanted, self._now(), failing=run.failing
        )
        if due.patch is None:
            return _sooner(requeue_after, due.wait)
        write = _status_write(execution.resource, run.primary, {**due.patch, **status.stamps})
        if run.failed_groups.holds(write):
            run.write_held(write)
        elif not self._must_wait(run, write):
            await self._store_status(run, status, write, due.wanted)
        return _sooner(requeue_after, run.repairs_wait)

    def _report_held(self, run: ExecutionState, held: str) -> None:
        """Report children that others hold, once: some definitions have no place for conditions."""
        if run.record.held != held:
            for event in event_of_held_children(stored_status(run.primary), held):
                run.execution.emit(event)
        run.record.held = held

    async def _store_status(
        self,
        run: ExecutionState,
        status: StatusPatch,
        write: MergePatch,
        wanted: Mapping[str, Any],
    ) -> None:
        result = await self._write_primary(run, write)
        if result.outcome is WriteOutcome.DONE:
            run.record.status.written(
                run.primary, wanted, self._now(), names_failure=run.names_failure
            )
            for phase in status.phases:
                run.execution.measure(phase)
        if result.outcome is not WriteOutcome.CONFLICT:
            for event in status.events:
                quotes = event.quotes or (run.failing and event.type == "Warning")
                run.execution.emit(replace(event, quotes=quotes))


def _present_conditions(primary: KubeObject) -> StatusPatch:
    """Return the status for a plan without one, to which a condition of the runtime is added."""
    return StatusPatch({"conditions": list(conditions_in(stored_status(primary)))})


def _may_be_written(run: ExecutionState) -> bool:
    """Return whether a status may be written that the plan does not have.

    Not if the plan leaves the object as it is, or to others, and so writes nothing: the stored
    status may have fields that the installed definition drops with the next write.
    """
    plan = run.execution.plan
    writes = plan.commit or plan.stages or plan.independent
    return run.primary.metadata.terminating or bool(writes)


def _is_primary(run: ExecutionState, write: Write) -> bool:
    target, meta = write.target, run.primary.metadata
    return target.resource is run.execution.resource and target.key == meta.key


def _part_of(write: Write) -> str:
    return subresource_of(write) or "metadata"


def _sooner(one: float | None, other: float | None) -> float | None:
    """Return the shorter of two waits; None stands for no wait."""
    return min((wait for wait in (one, other) if wait is not None), default=None)


def _status_write(
    resource: Resource[Any], primary: KubeObject, patch: Mapping[str, Any]
) -> MergePatch:
    meta = primary.metadata
    return MergePatch(
        Target(resource, meta.namespace, meta.name, scope="status"),
        meta.uid,
        {"status": dict(patch)},
        subresource="status",
        resource_version=meta.resource_version if holds_list(patch) else None,
    )
