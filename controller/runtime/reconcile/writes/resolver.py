"""Resolves expectations that the store cannot: repeats lost writes, or reads the object live.

A lost create is repeated under the same name and a lost delete with the same uid, which is safe
(EXP-32, EXP-33). Any other expectation is resolved by one live GET (EXP-24). The number of
concurrent requests is bounded, also for each owner, failures back off, and no reconcile waits for
any of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from controller.kube.errors import KubeError
from controller.runtime.expectations.turns import BACKOFF, ResolverTurns
from controller.runtime.plan import Create, Delete, Target
from controller.runtime.reconcile.lookups import read_live
from controller.runtime.reconcile.writes.result import WriteOutcome
from workqueue import Workers, WorkQueue

if TYPE_CHECKING:
    import random

    from controller.kube.client import Client
    from controller.runtime.expectations.expectation import Expectation, ObjectReference
    from controller.runtime.expectations.expectations import Expectations
    from controller.runtime.expectations.owners import Owner
    from controller.runtime.plan import Write
    from controller.runtime.reconcile.writes.writer import Writer
    from workqueue import Clock

CONCURRENCY = 8
"""Expectations resolved at the same time, apart from those whose requests take long."""

PATIENCE = 0.5
"""Seconds for which a slow request delays the next expectation."""

SLOW = 4096
"""Maximum expectations whose requests take long. Each takes a few kilobytes."""

IN_FLIGHT_INTERVAL = 5.0
"""Seconds between two checks of a write that is in flight."""

_log = structlog.stdlib.get_logger("manta.expectations")


class ExpectationResolver:
    """Runs the tasks that resolve what the store alone cannot.

    Args:
        expectations: asks for live reads and records their results.
        writer: repeats writes.
        client: reads objects live.
        clock: the running event loop, or something like it.
        rng: jitter of the back-off.
    """

    name = "resolver"

    def __init__(
        self,
        expectations: Expectations,
        writer: Writer,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._expectations = expectations
        self._client = client
        self._clock = clock
        self._writer = writer
        self._queue: WorkQueue[ObjectReference] = WorkQueue(clock=clock, rng=rng, backoff=BACKOFF)
        self._turns = ResolverTurns(rng)
        self._in_progress: set[ObjectReference] = set()
        expectations.request_live_read = self._enqueue
        expectations.withdraw_live_read = self._withdraw

    async def run(self) -> None:
        """Resolve expectations until closed or cancelled."""
        await Workers(
            self._queue,
            self._process,
            CONCURRENCY,
            name=self.name,
            clock=self._clock,
            patience=PATIENCE,
            limit=SLOW,
        ).run()

    def close(self) -> None:
        """Start nothing more; `run` ends when the requests in flight have ended."""
        self._queue.close()

    def _enqueue(self, reference: ObjectReference, delay: float) -> None:
        """Queue an object unless it is being resolved: `_requeue` then checks what is left.

        Nor if its owner's turns decide: a write that fails again does not shorten their back-off.
        """
        if reference in self._in_progress:
            return
        unknown = self._unknown(reference)
        if unknown is None or not self._turns.holds(unknown.writer, reference):
            self._queue.add_after(reference, delay)

    def _withdraw(self, reference: ObjectReference) -> None:
        """Wake nobody for an object of which nothing is expected any more.

        One that takes turns with others of its owner is woken nevertheless, to give its turn away.
        """
        if reference not in self._turns:
            self._queue.withdraw(reference)
            self._queue.forget(reference)

    async def _process(self, reference: ObjectReference) -> None:
        expectation = self._unknown(reference)
        owner = expectation.writer if expectation else ""
        for each in self._turns.drop(reference, unless=owner):
            self._queue.add_after(each, 0.0)
        if owner and not self._turns.begin(owner, reference):
            return
        repeated = expectation is not None and self._is_to_be_repeated(expectation)
        resolved = await self._try(reference)
        if owner:
            following, delay = self._turns.end(
                owner, reference, resolved=resolved, repeated=repeated
            )
            for each in following:
                self._queue.add_after(each, delay)
        if resolved or not owner:
            self._requeue(reference, resolved=resolved)

    def _unknown(self, reference: ObjectReference) -> Expectation[Any] | None:
        """Return the expectation of a write by some owner whose outcome is unknown."""
        expectation = self._expectations.get(reference)
        if expectation is None or not expectation.outcome_unknown or expectation.presumed_failed:
            return None
        return expectation if expectation.writer else None

    async def _try(self, reference: ObjectReference) -> bool:
        """Resolve an object's expectation and log exceptions; return whether it succeeded."""
        self._in_progress.add(reference)
        try:
            return await self._resolve(reference)
        except Exception as error:  # noqa: BLE001  one object must not end the task
            _log.error("resolver.failed", target=str(reference), exc_info=error)
            return False
        finally:
            self._in_progress.discard(reference)

    async def _resolve(self, reference: ObjectReference) -> bool:
        """Resolve an expectation; return whether that succeeded, otherwise it is retried."""
        expectation = self._expectations.get(reference)
        if expectation is None or (
            expectation.write is not None and not expectation.outcome_unknown
        ):
            return True
        owner = self._expectations.writer_of(expectation)
        write = expectation.write
        if write is not None and owner is not None and self._is_to_be_repeated(expectation):
            return await self._repeat(owner, write, expectation)
        if self._expectations.next_live_read(expectation) > 0:
            return True
        if self._expectations.expire_lookup(expectation):
            return True
        return await self._read_live(reference, expectation)

    async def _repeat(self, owner: Owner, write: Write, expectation: Expectation[Any]) -> bool:
        """Repeat a write; return whether its outcome is known now."""
        if self._expectations.held:
            return False
        result = await self._writer.perform(owner, write, repetition=True)
        target = f"{write.target.resource} {write.target.key}"
        _log.info("write.repeated", target=target, outcome=result.outcome.value)
        if result.outcome is WriteOutcome.UNKNOWN:
            return False
        if result.outcome in {WriteOutcome.FAILED, WriteOutcome.NAMESPACE_TERMINATING}:
            # Rejected this time; only a live read shows whether the first attempt succeeded.
            return await self._read_live(expectation.reference, expectation)
        self._expectations.enqueue_owners(expectation)
        return True

    async def _read_live(self, reference: ObjectReference, expectation: Expectation[Any]) -> bool:
        version = expectation.version
        self._expectations.begin_request(expectation)
        owner = self._expectations.writer_of(expectation)
        client = self._client.for_flow(owner.uid if owner is not None else self.name)
        try:
            obj = await read_live(
                client, Target(reference.resource, reference.namespace, reference.name)
            )
        except KubeError as error:
            _log.info("live_read.failed", target=str(reference), error=str(error))
            return False
        changed = (
            self._expectations.get(reference) is not expectation or expectation.version != version
        )
        if not changed:
            self._expectations.record_live_read(expectation, obj)
        return True

    def _is_to_be_repeated(self, expectation: Expectation[Any]) -> bool:
        """Return whether repeating the write shows its outcome and is safe.

        Nothing is created for a terminating owner (EXP-12). A deleted object that the store no
        longer shows is read live, like any object that has left the store (EXP-24).
        """
        owner = self._expectations.writer_of(expectation)
        match expectation.write:
            case Create():
                return owner is not None and not owner.terminating
            case Delete():
                return owner is not None and not expectation.needs_live_read
            case _:
                return False

    def _requeue(self, reference: ObjectReference, *, resolved: bool) -> None:
        """Schedule the next check if anything is still expected."""
        if not resolved:
            self._queue.add_rate_limited(reference)
            return
        self._queue.forget(reference)
        expectation = self._expectations.get(reference)
        if expectation is None:
            return
        if expectation.write is not None and not expectation.outcome_unknown:
            self._enqueue(reference, IN_FLIGHT_INTERVAL)
        else:
            self._enqueue(reference, max(0.0, self._expectations.next_live_read(expectation)))
