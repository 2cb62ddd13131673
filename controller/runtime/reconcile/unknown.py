"""Finds out what became of writes whose answers were lost, with the owner's next plan.

The caches tell of most. Creates and deletes are sent again, under the same name and uid, which is
safe (EXP-32, EXP-33): one first, and if that has an answer, more and more. Everything else is read
live and planned anew (EXP-24): a change may have been revoked since. What has failed waits, as all
writes do.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from controller.runtime.expectations.expectation import ObjectReference
from controller.runtime.reconcile.execution import SlowStart
from controller.runtime.reconcile.failed_groups import WriteOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controller.runtime.expectations.owners import Questions
    from controller.runtime.plan import Failure, Write
    from controller.runtime.reconcile.execution import ExecutionState
    from controller.runtime.reconcile.failed_groups import Group
    from controller.runtime.reconcile.lookups import LookupReader
    from controller.runtime.reconcile.writer import Writer


class UnknownWrites:
    """Sends writes again and reads objects live, beside the writes of a plan.

    Args:
        writer: sends the writes.
        lookups: reads objects.
        now: monotonic seconds.
        on_silence: called when the server takes long to answer.
    """

    def __init__(
        self,
        writer: Writer,
        lookups: LookupReader,
        *,
        now: Callable[[], float],
        on_silence: Callable[[ExecutionState, Failure], None],
    ) -> None:
        self._writer = writer
        self._lookups = lookups
        self._now = now
        self._on_silence = on_silence

    async def find_out(self, run: ExecutionState, questions: Questions, reads: Group) -> None:
        """Answer the questions that are due; reads that fail wait as the group `reads`."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(run, questions.repeats))
            group.create_task(self._read(run, questions.reads, reads))

    async def _repeat(self, run: ExecutionState, writes: Sequence[Write]) -> None:
        groups, slow_start = run.failed_groups, SlowStart({})

        async def repeat(some: Sequence[Write]) -> None:
            answers = await asyncio.gather(*(self._repeat_one(run, write) for write in some))
            for write, done in zip(some, answers, strict=True):
                if not done:
                    slow_start.record_failure(write)

        probe = groups.probe(writes)
        if probe is not None:
            await repeat([probe])
        rest = [write for write in writes if write is not probe and not groups.holds(write)]
        await slow_start.run(rest, repeat)

    async def _repeat_one(self, run: ExecutionState, write: Write) -> bool:
        """Send a write again and return whether it was done.

        If it is refused, only a read tells whether the first was.
        """
        owner = run.execution.owner
        run.write_started(write)
        result = await self._writer.perform(
            owner, write, repetition=True, on_silence=partial(self._on_silence, run)
        )
        run.silent.pop(id(write), None)
        if result.outcome in {WriteOutcome.FAILED, WriteOutcome.NAMESPACE_TERMINATING}:
            reference = ObjectReference(write.target.resource, write.target.key)
            run.learned |= await self._lookups.ask(owner, reference)
        else:
            run.learned |= result.outcome is not WriteOutcome.UNKNOWN
        run.failed_groups.ended(result, self._now())
        return result.outcome is WriteOutcome.DONE

    async def _read(
        self, run: ExecutionState, references: Sequence[ObjectReference], group: Group
    ) -> None:
        """Read objects live, one first."""
        groups, ask = run.failed_groups, partial(self._lookups.ask, run.execution.owner)
        if not references or group in groups.waiting:
            return
        answered = await ask(references[0])
        run.learned |= answered
        if answered:
            answered = all(await asyncio.gather(*map(ask, references[1:])))
        outcome = WriteOutcome.DONE if answered else WriteOutcome.FAILED
        groups.record(group, outcome, None, self._now())
