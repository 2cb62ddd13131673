"""Reconciles objects of a snapshot until nothing is left to do, and records what that takes.

The recorded writes are those that the operator would make, in its order, if every one of them
succeeded and deleted pods were gone at once. Nothing leaves the process: the dry run of the API
server is in `requests`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.merge_patch import difference
from controller.runtime.reconcile.plan import MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from controller.command.planning.snapshot import Snapshot
    from controller.runtime.reconcile.kind import Kind
    from controller.runtime.reconcile.plan import Event, Plan, Write

MOST_ROUNDS: Final = 1000
"""More plans than any object needs."""


class NeverSettlesError(RuntimeError):
    """Plans for an object keep writing: a bug of its kind."""


class DryRun:
    """Executes plans on a snapshot.

    No commands reach a kind's external system, and nothing is known from there.

    Args:
        snapshot: the objects, which change during the dry run.
        now: the time of all plans.

    Attributes:
        snapshot: the objects as they are now.
        before: all objects as they were at the start, by resource and key.
        writes: all writes but those of status, in order.
        events: what the plans would report.
    """

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.snapshot = snapshot
        self.before = snapshot.contents()
        self.writes: list[Write] = []
        self.events: list[Event] = []
        self._now = now

    def reconcile(self, kind: Kind[Any], key: str) -> bool:
        """Execute plans for one object until one has no writes; returns whether any had.

        Raises:
            NeverSettlesError: there was still something to write after `MOST_ROUNDS` plans.
        """
        for done in range(MOST_ROUNDS):
            seen = kind.observe(key, self.snapshot)
            if seen is None or not self._execute(kind.plan(seen, self._now), kind, key):
                return done > 0
        raise NeverSettlesError(f"{kind.primary.kind} {key} still changes at plan {MOST_ROUNDS}")

    def reconcile_with_created(self, kinds: Sequence[Kind[Any]], key: str) -> None:
        """Reconcile an object of the first kind and everything created for it, of all kinds.

        Whenever all of them have settled, the pods created so far become ready.

        Raises:
            NeverSettlesError: one object or all together do not settle.
        """
        for _ in range(MOST_ROUNDS):
            objects = [(kinds[0], key), *self._created(kinds)]
            changed = [self.reconcile(kind, each) for kind, each in objects]
            if not any(changed) and not self.snapshot.run_pods():
                return
        raise NeverSettlesError(f"what is created for {kinds[0].primary.kind} {key} never settles")

    def _created(self, kinds: Sequence[Kind[Any]]) -> Iterator[tuple[Kind[Any], str]]:
        now = self.snapshot.contents()
        for kind in kinds:
            for key in now[kind.primary]:
                if key not in self.before[kind.primary]:
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
            self.snapshot.execute(write)
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
