"""Reconciles objects of a snapshot until nothing is left to do, and records what that takes.

The recorded writes are those that the operator would make, in its order, if every one of them
succeeded and deleted objects were gone at once. Nothing leaves the process: the dry run of the API
server is in `requests`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from controller.apimachinery.patches.merge_patch import difference
from controller.kube.resources import PODS
from controller.runtime.plan import NOTHING, MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from controller.command.planning.snapshot import Snapshot
    from controller.runtime.kind import Kind
    from controller.runtime.plan import Event, Plan, Write

Json = dict[str, Any]

MOST_ROUNDS: Final = 1000
"""More plans than any object needs, unless its pods are replaced one after the other."""

_ROUNDS_A_POD: Final = 4
"""More plans than the replacement of one pod needs."""


class DryRunRecorder(Protocol):
    """Gets what a dry run does while it does it."""

    def record(self, seconds: float, write: Write, removed: Sequence[Json]) -> None:
        """Record one write.

        Args:
            seconds: since the start of the dry run.
            write: as it was executed.
            removed: the objects that went with it.
        """
        ...

    def settled(self) -> None:
        """Record that all created pods become ready now."""
        ...


class NeverSettlesError(RuntimeError):
    """Plans for an object keep writing: a bug of its kind."""


class DryRun:
    """Executes plans on a snapshot.

    No commands reach a kind's external system, and nothing is known from there.

    Args:
        snapshot: the objects, which change during the dry run.
        now: the time of the first plan.
        recorder: gets every write as it is executed.

    Attributes:
        snapshot: the objects as they are now.
        before: all objects as they were at the start, by resource and key.
        writes: all writes but those of status, in order.
        events: what the plans would report.
    """

    def __init__(
        self, snapshot: Snapshot, now: datetime, recorder: DryRunRecorder | None = None
    ) -> None:
        self.snapshot = snapshot
        self.before = snapshot.contents()
        self.writes: list[Write] = []
        self.events: list[Event] = []
        self._begin = self._now = now
        self._recorder = recorder
        self._requeue_after: float | None = None
        self._idle: dict[tuple[str, str], tuple[int, datetime, Plan]] = {}

    def reconcile(self, kind: Kind[Any], key: str) -> bool:
        """Execute plans for one object until one has no writes; returns whether any had.

        A plan without writes is not made again before anything has changed.

        Raises:
            NeverSettlesError: there was still something to write after `MOST_ROUNDS` plans.
        """
        for done in range(MOST_ROUNDS):
            plan = self._plan(kind, key)
            self._requeue_after = plan.requeue_after
            if not self._execute(plan, kind, key):
                self._idle[kind.primary.kind, key] = self.snapshot.changes, self._now, plan
                return done > 0
        raise NeverSettlesError(f"{kind.primary.kind} {key} still changes at plan {MOST_ROUNDS}")

    def _plan(self, kind: Kind[Any], key: str) -> Plan:
        changes, time, plan = self._idle.get((kind.primary.kind, key), (-1, self._now, NOTHING))
        if (changes, time) == (self.snapshot.changes, self._now):
            return plan
        seen = kind.observe(key, self.snapshot)
        return NOTHING if seen is None else kind.plan(seen, self._now)

    def reconcile_with_created(
        self, kinds: Sequence[Kind[Any]], key: str, *, patience: timedelta = timedelta(0)
    ) -> None:
        """Reconcile an object of the first kind and what is created or changed for it.

        Whenever all of that has settled, the pods created so far become ready.

        Args:
            kinds: kinds of the object, then of what is created for it.
            key: key of the object.
            patience: how long the object waits for what its own plans want to do later.

        Raises:
            NeverSettlesError: one object or all together do not settle.
        """
        for _ in range(MOST_ROUNDS + _ROUNDS_A_POD * len(self.before.get(PODS, ()))):
            primary = kinds[0], key
            objects = [*(each for each in self._touched(kinds) if each != primary), primary]
            changed = [self.reconcile(kind, each) for kind, each in objects]
            if any(changed):
                continue
            if self.snapshot.run_pods():
                if self._recorder is not None:
                    self._recorder.settled()
                continue
            later = self._now + timedelta(seconds=self._requeue_after or 0)
            if not self._requeue_after or later - self._begin > patience:
                return
            self._now = later
        raise NeverSettlesError(f"what is created for {kinds[0].primary.kind} {key} never settles")

    def _touched(self, kinds: Sequence[Kind[Any]]) -> Iterator[tuple[Kind[Any], str]]:
        """Yield the objects of these kinds that are not as they were at the start."""
        now = self.snapshot.contents()
        for kind in kinds:
            for key, obj in now[kind.primary].items():
                if self.before[kind.primary].get(key) is not obj:
                    yield kind, key

    def _execute(self, plan: Plan, kind: Kind[Any], key: str) -> bool:
        """Execute one plan; returns whether anything changed."""
        for lookup in plan.lookups:
            self.snapshot.look_up(lookup)
        if plan.lookups:
            return True
        self.events += plan.events
        writes = list(_writes(plan))
        self.writes += writes
        for write in writes:
            removed = self.snapshot.execute(write)
            if self._recorder is not None:
                seconds = (self._now - self._begin).total_seconds()
                self._recorder.record(seconds, write, removed)
        return self._write_status(plan, kind, key) or bool(writes)

    def _write_status(self, plan: Plan, kind: Kind[Any], key: str) -> bool:
        present = self.snapshot.raw(kind.primary, key)
        if plan.status is None or present is None:
            return False
        patch = difference(present.get("status"), plan.status.wanted)
        if patch:
            namespace, _, name = key.rpartition("/")
            target = Target(kind.primary, namespace, name)
            self.snapshot.execute(MergePatch(target, "", {"status": patch}, subresource="status"))
        return bool(patch)


def _writes(plan: Plan) -> Iterator[Write]:
    if plan.commit is not None:
        yield plan.commit
    for stage in plan.stages:
        yield from stage
    yield from plan.independent
