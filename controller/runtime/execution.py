"""One execution of a plan: what it gets and returns, its state, and the live reads it makes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.metadata import is_owned_by
from controller.kube.client import PAGE_SIZE, Client
from controller.kube.errors import KubeError
from controller.kube.objects import KubeObject
from controller.kube.resources import EVENTS, PODS, Resource
from controller.runtime.expectation import ObjectReference, reference_of
from controller.runtime.expectations import Expectations
from controller.runtime.failed_groups import (
    FailedGroups,
    Group,
    SlowStart,
    WriteOutcome,
    WriteResult,
)
from controller.runtime.kind import FailedCreate, LogText
from controller.runtime.plan import (
    AnyLookup,
    Event,
    FailedCreates,
    Failure,
    LiveList,
    LogTail,
    Lookup,
    PhaseDuration,
    Plan,
    StatusPatch,
    Target,
    Write,
    subresource_of,
    verb_of,
)
from controller.runtime.reasons import last_refusal
from controller.runtime.record import Owner, Record
from controller.runtime.repairs import SOMEBODY, WHOLE, Path, other_writer
from controller.runtime.status import HeldChild
from controller.runtime.writer import Writer, read_live


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
    first_write: Callable[[], None] = lambda: None
    measure: Callable[[PhaseDuration], None] = lambda _phase: None


# The results so far of one execution: writes, failures, and what follows for the key.


class ExecutionState:
    """The results so far of one execution."""

    def __init__(
        self,
        execution: PlanExecution,
        record: Record,
        failed_groups: FailedGroups,
        now: Callable[[], float],
    ) -> None:
        self.now = now  # monotonic seconds
        self.execution = execution
        self.record = record
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
        late = self.record.overdue_failures(self.now())
        overdue = {failure.write.target: failure for failure in late}
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
        verb: str = verb_of(write)
        if verb == "update":
            verb = subresource_of(write) or "patch"
        self._verbs[verb] += 1

    def write_ended(self, result: WriteResult) -> WriteResult:
        """Record the result of a write and return it."""
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
            self.failed_groups.ended(result, self.now())
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

    def outcome(self, requeue_after: float | None) -> PlanOutcome:
        """Return the outcome; `requeue_after` in seconds."""
        groups = self.failed_groups
        return PlanOutcome(
            self._next(),
            requeue_after,
            (0.0 if self.learned else max(0.0, groups.due - self.now()))
            if groups.failures
            else None,
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


# Answers the lookups of a plan by live reads, whose results become visible to `observe`.

_log = structlog.stdlib.get_logger("manta.expectations")


class LookupReader:
    """Answers the lookups of plans."""

    def __init__(self, client: Client, expectations: Expectations) -> None:
        self._client = client
        self._expectations = expectations

    async def look_up(self, owner: Owner, lookup: AnyLookup) -> KubeError | None:
        """Answer one lookup and return the error if a read failed.

        Logs and events never fail: that they are unavailable is a result too.
        """
        try:
            match lookup:
                case Lookup(target):
                    await self._read(owner, target)
                case LiveList():
                    await self._list(owner, lookup)
                case LogTail():
                    found = await self._log_tail(owner, lookup)
                    self._expectations.record(owner.uid).logs[lookup] = found
                case FailedCreates():
                    refused = await self._failed_create(owner, lookup)
                    self._expectations.record(owner.uid).failed_creates[lookup.uid] = refused
        except KubeError as error:
            return error
        return None

    async def other_writers(self, target: Target, paths: Sequence[Path]) -> list[str]:
        """Read the object live, because caches drop `managedFields`; the other writer of each path.

        A deletion leaves no trace of its writer.
        """
        obj: Mapping[str, Any] = {}
        if any(path != WHOLE for path in paths):
            with suppress(KubeError):
                obj = await self._client.get_raw(target.resource, target.namespace, target.name)
        own = self._client.field_manager
        return [SOMEBODY if path == WHOLE else other_writer(obj, path, own=own) for path in paths]

    async def ask(self, owner: Owner, reference: ObjectReference) -> bool:
        """Find out about an object by a live read; return whether the server answered."""
        expectation = self._expectations.get(reference)
        if expectation is None or self._expectations.expire_lookup(expectation):
            return True
        version = expectation.version
        self._expectations.begin_request(expectation)
        target = Target(reference.resource, reference.namespace, reference.name)
        try:
            obj = await read_live(self._client.for_flow(owner.uid), target)
        except KubeError as error:
            _log.info("live_read.failed", target=str(reference), error=str(error))
            return False
        if self._expectations.get(reference) is expectation and expectation.version == version:
            self._expectations.record_live_read(expectation, obj)
        return True

    async def _read(self, owner: Owner, target: Target) -> None:
        obj = await read_live(self._client.for_flow(owner.uid), target)
        self._expectations.record_lookup(owner, target, obj)

    async def _list(self, owner: Owner, lookup: LiveList) -> None:
        """List metadata, then read the owner's objects that no cache shows.

        Metadata can be decoded even if an object does not fit its type, so that such an object
        does not hide the others.
        """
        resource, namespace = lookup.resource, lookup.namespace
        client, continue_ = self._client.for_flow(owner.uid), ""
        while True:
            page = await client.list_metadata(
                resource,
                namespace,
                label_selector=lookup.label_selector,
                limit=PAGE_SIZE,
                continue_=continue_,
            )
            for found in page.items:
                target = Target(resource, namespace, found.metadata.name)
                if (
                    is_owned_by(found.metadata, owner.uid)
                    and self._expectations.peek(target) is None
                ):
                    await self._read(owner, target)
            continue_ = page.continue_
            if not continue_:
                break
        self._expectations.record(owner.uid).lists.add(lookup)

    async def _log_tail(self, owner: Owner, lookup: LogTail) -> LogText:
        client = self._client.for_flow(owner.uid)
        namespace, selector, pod = lookup.namespace, lookup.label_selector, lookup.pod
        try:
            if not pod:
                found = await client.list_metadata(PODS, namespace, label_selector=selector)
                newest = max(found.items, key=_age_order, default=None)
                if newest is None:
                    return LogText(unavailable=f"there is no pod with {selector}")
                pod = newest.metadata.name
            text = await client.read_log_tail(
                namespace,
                pod,
                container=lookup.container,
                lines=lookup.lines,
                limit_bytes=lookup.limit_bytes,
                previous=lookup.previous,
            )
        except KubeError as error:
            return LogText(unavailable=str(error))
        return LogText(text)

    async def _failed_create(self, owner: Owner, lookup: FailedCreates) -> FailedCreate:
        client = self._client.for_flow(owner.uid)
        query = {"fieldSelector": f"regarding.uid={lookup.uid}", "limit": str(PAGE_SIZE)}
        try:
            path = EVENTS.path(lookup.namespace)
            found = mapping(await client.request_json("GET", path, query=query))
        except KubeError as error:
            return FailedCreate(lookup.asked_at, unavailable=str(error))
        return FailedCreate(lookup.asked_at, last_refusal(found.get("items") or ()))


def _age_order(pod: KubeObject) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.name


# Finds out what became of writes whose answers were lost, with the owner's next plan.
#
# The caches tell of most. Creates and deletes are sent again, under the same name and uid, which is
# safe (EXP-32, EXP-33): one first, and if that has an answer, more and more. Everything else is
# read live and planned anew (EXP-24): a change may have been revoked since. What has failed waits,
# as all writes do.


class UnknownWrites:
    """Sends writes again and reads objects live, beside the writes of a plan."""

    def __init__(
        self,
        writer: Writer,
        lookups: LookupReader,
        *,
        on_silence: Callable[[ExecutionState, Failure], None],
    ) -> None:
        self._writer = writer
        self._lookups = lookups
        self._on_silence = on_silence

    async def repeat(self, run: ExecutionState, writes: Sequence[Write]) -> None:
        """Send writes again that are due."""
        groups, slow_start = run.failed_groups, SlowStart({})

        async def send(some: Sequence[Write]) -> None:
            answers = await asyncio.gather(*(self._repeat_one(run, write) for write in some))
            for write, done in zip(some, answers, strict=True):
                if not done:
                    slow_start.record_failure(write)

        probe = groups.probe(writes)
        if probe is not None:
            await send([probe])
        rest = [write for write in writes if write is not probe and not groups.holds(write)]
        await slow_start.run(rest, send)

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
            run.learned |= await self._lookups.ask(owner, reference_of(write.target))
        else:
            run.learned |= result.outcome is not WriteOutcome.UNKNOWN
        run.failed_groups.ended(result, run.now())
        return result.outcome is WriteOutcome.DONE

    async def read(
        self, run: ExecutionState, references: Sequence[ObjectReference], group: Group
    ) -> None:
        """Read objects live, one first; reads that fail wait as this group."""
        groups, ask = run.failed_groups, partial(self._lookups.ask, run.execution.owner)
        if not references or group in groups.waiting:
            return
        answered = await ask(references[0])
        run.learned |= answered
        if answered:
            answered = all(await asyncio.gather(*map(ask, references[1:])))
        outcome = WriteOutcome.DONE if answered else WriteOutcome.FAILED
        groups.record(group, outcome, None, run.now())
