"""Carries out a plan: lookups, commit, commands, stages, aside, status, events.

What waits, waits here, and is bounded: by the time limits of requests and by the batch. Creates
start slowly, so that a quota or an admission webhook that refuses all costs a few requests and not
a thousand (EXP-10); the next batch of the same growth goes on where the last one ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from controller.apimachinery.merge_patch import difference, holds_list
from controller.runtime.events.aggregation import summarised
from controller.runtime.reconcile.plan import Create, Delete, Event, MergePatch, StatusPatch, Target
from controller.runtime.reconcile.writer import Fate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource
    from controller.runtime.expectations.owners import Owner
    from controller.runtime.reconcile.plan import Failure, Plan, Write
    from controller.runtime.reconcile.writer import Result, Writer

BATCH = 64
"""Writes of one reconcile at most; the rest of the plan is for the next one."""

FAILED_READ = "FailedRead"
"""Reason of the event and the condition when a plan's live read failed."""

STATUS_INTERVAL = 1.0
"""Least seconds between two status writes of one object that only move counters."""


_Lane: TypeAlias = "tuple[Resource[Any], str]"
"""Creates that have much in common, so that one refusal speaks for all: resource and scope."""


class Next(Enum):
    """What the controller does with the key after a plan was carried out."""

    DONE = "done"  # rest, or wake at `wake_after`
    MORE = "more"  # at once, at the tail: lookups answered, or more than one batch
    AGAIN = "again"  # soon and quietly: a precondition failed, a name was taken
    WAIT = "wait"  # the ledger wakes the key when an unknown write is settled
    FAILED = "failed"  # with back-off


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a plan.

    Attributes:
        next: what to do with the key.
        wake_after: seconds until the key must be looked at again, None if only events matter.
        writes: requests that changed something or tried to, by verb.
        failures: writes that did not succeed, the first cause first.
        error: a sentence about a live read that failed, so that nothing was done; empty if none.
    """

    next: Next
    wake_after: float | None = None
    writes: Mapping[str, int] = field(default_factory=dict[str, int])
    failures: tuple[Failure, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One plan to carry out.

    Attributes:
        owner: on whose behalf.
        resource: resource of the primary object.
        primary: the primary object as it was observed.
        plan: what to do.
        status_after: the status to write when these writes failed.
        emit: records an event about the primary object.
        hand_over: passes on the plan's commands.
    """

    owner: Owner
    resource: Resource[Any]
    primary: KubeObject
    plan: Plan
    status_after: Callable[[tuple[Failure, ...]], StatusPatch | None]
    emit: Callable[[Event], None]
    hand_over: Callable[[], None] = lambda: None


class Executor:
    """Carries out plans.

    Holds no state but when it last wrote each object's status, what of it the server did not keep,
    and, between two batches of one plan, how many creates at once the first has come to.

    Args:
        writer: makes the requests.
        now: monotonic seconds.
    """

    def __init__(self, writer: Writer, *, now: Callable[[], float]) -> None:
        self._writer = writer
        self._now = now
        self._status_written: dict[str, float] = {}
        self._not_kept: dict[str, dict[str, Any]] = {}
        self._widths: dict[str, dict[_Lane, int]] = {}

    async def execute(self, job: Job) -> Outcome:
        """Carry out one plan, or the first batch of it."""
        if job.plan.lookups:
            return await self._look_up(job)
        run = _Run(job, self._widths.pop(job.owner.uid, {}))
        for event in job.plan.events:
            job.emit(event)
        try:
            if await self._commit(run):
                job.hand_over()
                await self._stages(run)
                await self._at_once(run, job.plan.aside)
        finally:
            for event in summarised(run.events):
                job.emit(event)
        if run.ended:
            return run.outcome(job.plan.wake_after)
        wake_after = await self._status(run)
        outcome = run.outcome(wake_after)
        if outcome.next is Next.MORE:
            self._widths[job.owner.uid] = run.widths
        return outcome

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._status_written.pop(uid, None)
        self._not_kept.pop(uid, None)
        self._widths.pop(uid, None)

    async def _look_up(self, job: Job) -> Outcome:
        async with asyncio.TaskGroup() as group:
            lookups = job.plan.lookups
            tasks = [
                group.create_task(self._writer.look_up(job.owner, lookup)) for lookup in lookups
            ]
        notes = [
            f"cannot read {lookup.subject}, so nothing is done: {error}"
            for lookup, task in zip(lookups, tasks, strict=True)
            if (error := task.result()) is not None
        ]
        for note in notes:
            job.emit(Event("Warning", FAILED_READ, "Reconcile", note))
        if notes:
            return Outcome(Next.FAILED, job.plan.wake_after, error=notes[0])
        return Outcome(Next.MORE)

    async def _commit(self, run: _Run) -> bool:
        """Whether the stages may follow."""
        commit = run.job.plan.commit
        if commit is None:
            return True
        result = await self._perform(run, commit)
        if result.fate in {Fate.CONFLICT, Fate.UNKNOWN}:
            run.ended = True
        return result.fate is Fate.DONE

    async def _stages(self, run: _Run) -> None:
        for stage in run.job.plan.stages:
            room = BATCH - run.count
            if len(stage) > room:
                run.more = True
                stage = stage[:room]  # noqa: PLW2901  the part of it that fits
            await self._at_once(run, [w for w in stage if not isinstance(w, Create)])
            await self._slowly(run, [w for w in stage if isinstance(w, Create)])
            if run.more or run.stopped:
                return

    async def _at_once(self, run: _Run, writes: Sequence[Write]) -> None:
        async with asyncio.TaskGroup() as group:
            for write in writes:
                group.create_task(self._perform(run, write))

    async def _slowly(self, run: _Run, writes: Sequence[Create]) -> None:
        """Creates of each lane by themselves: what is refused in one says little about another."""
        lanes: dict[_Lane, list[Create]] = {}
        for write in writes:
            lanes.setdefault(_lane_of(write), []).append(write)
        async with asyncio.TaskGroup() as group:
            for lane, creates in lanes.items():
                group.create_task(self._ramp(run, lane, creates))

    async def _ramp(self, run: _Run, lane: _Lane, creates: Sequence[Create]) -> None:
        """1, 2, 4, ... at once; after the first failure in the lane no more are begun."""
        while creates and lane not in run.stuck:
            width = run.widths.get(lane, 1)
            await self._at_once(run, creates[:width])
            creates = creates[width:]
            run.widths[lane] = min(2 * width, BATCH)

    async def _perform(self, run: _Run, write: Write) -> Result:
        run.began(write)
        result = await self._writer.perform(run.job.owner, write)
        run.took(result)
        if result.fate is Fate.DONE and write.on_success is not None:
            run.events.append(write.on_success)
        return result

    async def _status(self, run: _Run) -> float | None:
        """Write the status if it differs; seconds until the key must be looked at again."""
        job = run.job
        wake_after = job.plan.wake_after
        status = job.status_after(tuple(run.failures)) if run.failures else job.plan.status
        if status is None:
            return wake_after
        wake_after = _sooner(wake_after, status.good_for)
        uid = run.primary.metadata.uid
        patch = difference(_status_of(run.primary), status.wanted)
        if not patch or patch == self._not_kept.get(uid):
            return wake_after
        rest = self._status_written.get(uid, -STATUS_INTERVAL) + STATUS_INTERVAL - self._now()
        if not status.urgent and rest > 0:
            return _sooner(wake_after, rest)
        result = await self._perform(run, _status_write(job.resource, run.primary, patch))
        if result.fate is Fate.DONE:
            self._status_written[uid] = self._now()
            self._note_what_is_not_kept(uid, run.primary, patch)
        if result.fate is not Fate.CONFLICT:
            for event in status.events:
                job.emit(event)
        return wake_after

    def _note_what_is_not_kept(self, uid: str, stored: KubeObject, patch: dict[str, Any]) -> None:
        """KubeRay's definitions prune fields that are ours: to ask again would change nothing."""
        missing = difference(_status_of(stored), patch)
        if missing:
            self._not_kept[uid] = missing
        else:
            self._not_kept.pop(uid, None)


class _Run:
    """What has happened so far in one execution."""

    def __init__(self, job: Job, widths: dict[_Lane, int]) -> None:
        self.job = job
        self.widths = widths  # creates at once, by lane
        self.stuck: set[_Lane] = set()  # lanes in which a write did not succeed
        self.primary = job.primary
        self.ended = False
        self.more = False
        self.count = 0
        self.failures: list[Failure] = []
        self.events: list[Event] = []  # of its writes
        self._verbs: Counter[str] = Counter()
        self._fates: set[Fate] = set()

    @property
    def stopped(self) -> bool:
        """Whether no further stage may begin."""
        return bool(self._fates - {Fate.DONE})

    def began(self, write: Write) -> None:
        self.count += 1
        self._verbs[_verb(write)] += 1

    def took(self, result: Result) -> None:
        self._fates.add(result.fate)
        if result.fate is not Fate.DONE:
            self.stuck.add(_lane_of(result.write))
        failure = result.failure
        if failure is not None:
            self.failures.append(failure)
        if result.obj is not None and result.obj.metadata.uid == self.primary.metadata.uid:
            self.primary = result.obj

    def outcome(self, wake_after: float | None) -> Outcome:
        return Outcome(self._next(), wake_after, dict(self._verbs), tuple(self.failures))

    def _next(self) -> Next:
        if Fate.FAILED in self._fates:
            return Next.FAILED
        if self._fates & {Fate.CONFLICT, Fate.TAKEN}:
            return Next.AGAIN
        if Fate.UNKNOWN in self._fates:
            return Next.WAIT
        if Fate.UNWANTED in self._fates:  # what a deleted owner waits for will never be there
            return Next.AGAIN if self.job.primary.metadata.terminating else Next.DONE
        if self.more:
            return Next.MORE
        return Next.DONE


def _lane_of(write: Write) -> _Lane:
    return write.target.resource, write.target.scope


def _verb(write: Write) -> str:
    match write:
        case Create():
            return "create"
        case Delete():
            return "delete"
        case _:
            return "status" if getattr(write, "subresource", "") == "status" else "patch"


def _sooner(one: float | None, other: float | None) -> float | None:
    """The shorter of two waits, None being no wait at all."""
    return min((wait for wait in (one, other) if wait is not None), default=None)


def _status_of(obj: KubeObject) -> Any:
    """The present status as plain data, with the members' names as the API has them."""
    return msgspec.to_builtins(getattr(obj, "status", None))


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
