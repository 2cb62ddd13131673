"""Answers the lookups of a plan by live reads, whose results become visible to `observe`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.metadata import is_owned_by
from controller.kube.client import PAGE_SIZE, Client
from controller.kube.errors import KubeError
from controller.kube.objects import KubeObject
from controller.kube.resources import EVENTS, PODS
from controller.runtime.execution import ExecutionState, SlowStart
from controller.runtime.expectation import ObjectReference, reference_of
from controller.runtime.expectations import Expectations
from controller.runtime.failed_groups import Group, WriteOutcome
from controller.runtime.kind import FailedCreate, LogText
from controller.runtime.plan import (
    AnyLookup,
    FailedCreates,
    Failure,
    LiveList,
    LogTail,
    Lookup,
    Target,
    Write,
)
from controller.runtime.reasons import last_refusal
from controller.runtime.record import Owner, Questions
from controller.runtime.repairs import SOMEBODY, WHOLE, Path, other_writer
from controller.runtime.writer import Writer, read_live

_log = structlog.stdlib.get_logger("manta.expectations")


def subject_of(lookup: AnyLookup) -> str:
    """Describe the lookup for messages."""
    match lookup:
        case Lookup(target):
            return f"{target.resource.kind} {target.name}"
        case LiveList(resource, _, selector):
            return f"the list of {resource} with {selector}"
        case LogTail(_, selector, container):
            return f"the log of {container} in {lookup.pod or f'pods with {selector}'}"
        case FailedCreates(_, uid):
            return f"the events of the object with uid {uid}"


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
    """Sends writes again and reads objects live, beside the writes of a plan.

    Args:
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
            run.learned |= await self._lookups.ask(owner, reference_of(write.target))
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
