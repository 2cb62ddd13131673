"""Answers the ledger's questions: repeats lost creates and deletes, reads live what is in doubt.

A lost create is repeated under the same name, a lost delete with the same uid: both are their own
proof (EXP-32, EXP-33). Anything else is settled by one live GET (EXP-24). Bounded in number, with
back-off, and never in a reconcile's way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from controller.kube.errors import KubeError
from controller.runtime.reconcile.plan import Create, Delete, Target
from controller.runtime.reconcile.writer import Fate
from workqueue import Backoff, Closed, WorkQueue

if TYPE_CHECKING:
    import random

    from controller.runtime.expectations.expectations import Ledger
    from controller.runtime.expectations.overlay import Entry, Reference
    from controller.runtime.expectations.owners import Owner
    from controller.runtime.reconcile.plan import Write
    from controller.runtime.reconcile.writer import Writer
    from workqueue import Clock

CONCURRENCY = 8
"""Questions answered at the same time; the rest of the client's slots are for reconciles."""

IN_FLIGHT = 5.0
"""Seconds after which to look again at a write that has no answer yet."""

_log = structlog.stdlib.get_logger("manta.ledger")


class Settler:
    """Owns the tasks that settle what the store alone cannot.

    Args:
        ledger: asks, and hears the answers.
        writer: makes the requests and records them.
        clock: the running event loop, or something like it.
        rng: jitter of the back-off.
    """

    name = "settler"

    def __init__(self, ledger: Ledger, writer: Writer, *, clock: Clock, rng: random.Random) -> None:
        self._ledger = ledger
        self._writer = writer
        self._questions: WorkQueue[Reference] = WorkQueue(
            clock=clock, rng=rng, backoff=Backoff(base=0.5, cap=30.0)
        )
        self._in_hand: set[Reference] = set()
        ledger.ask = self._ask

    async def run(self) -> None:
        """Answer questions until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(self._work(), name="settler")

    def close(self) -> None:
        """Take no more questions; `run` ends when those in flight are answered."""
        self._questions.close()

    def _ask(self, reference: Reference, delay: float) -> None:
        """Take a question, unless it is being answered: what is open then is seen afterwards."""
        if reference not in self._in_hand:
            self._questions.add_after(reference, delay)

    async def _work(self) -> None:
        while True:
            try:
                async with self._questions.take() as reference:
                    self._in_hand.add(reference)
                    try:
                        settled = await self._settle(reference)
                    finally:
                        self._in_hand.discard(reference)
                    self._follow_up(reference, settled=settled)
            except Closed:
                return

    async def _settle(self, reference: Reference) -> bool:
        """Whether there is no need to come back with back-off."""
        entry = self._ledger.entry(reference)
        if entry is None or (entry.write is not None and not entry.unknown):
            return True
        owner = self._ledger.writer_of(entry)
        write = entry.write
        if write is not None and owner is not None and _may_be_repeated(write, owner):
            return await self._repeat(owner, write, entry)
        if entry.unknown:
            return await self._read_live(reference, entry)
        if self._ledger.next_live_read(entry) > 0 or self._ledger.expire(entry):
            return True
        return await self._read_live(reference, entry)

    async def _repeat(self, owner: Owner, write: Write, entry: Entry[Any]) -> bool:
        """Whether the outcome is known now."""
        result = await self._writer.perform(owner, write, repetition=True)
        target = f"{write.target.resource} {write.target.key}"
        _log.info("write.repeated", target=target, fate=result.fate.value)
        if result.fate is Fate.UNKNOWN:
            return False
        if result.fate in {Fate.FAILED, Fate.UNWANTED}:
            # Refused this time; only a look can tell whether the first attempt came through.
            return await self._read_live(entry.reference, entry)
        self._ledger.wake_owners(entry)
        return True

    async def _read_live(self, reference: Reference, entry: Entry[Any]) -> bool:
        version = entry.version
        try:
            obj = await self._writer.read(
                Target(reference.resource, reference.namespace, reference.name)
            )
        except KubeError as error:
            _log.info("live_read.failed", target=str(reference), error=str(error))
            return False
        overtaken = self._ledger.entry(reference) is not entry or entry.version != version
        if not overtaken:
            self._ledger.read_live(entry, obj)
        return True

    def _follow_up(self, reference: Reference, *, settled: bool) -> None:
        """Come back for what is still open."""
        if not settled:
            self._questions.add_rate_limited(reference)
            return
        self._questions.forget(reference)
        entry = self._ledger.entry(reference)
        if entry is None:
            return
        if entry.unknown:
            self._ask(reference, 0.0)
        elif entry.write is not None:
            self._ask(reference, IN_FLIGHT)
        else:
            self._ask(reference, max(0.0, self._ledger.next_live_read(entry)))


def _may_be_repeated(write: Write, owner: Owner) -> bool:
    """Creates and deletes prove themselves; for an owner that is going nothing is made (EXP-12)."""
    return isinstance(write, Delete) or (isinstance(write, Create) and not owner.terminating)
