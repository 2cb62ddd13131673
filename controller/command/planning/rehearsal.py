"""Play a kind's plans on a snapshot until it has nothing left to do.

What comes out is the list of writes that the operator would make, in its order, if every one of
them succeeded and pods went as soon as they were deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.apimachinery.merge_patch import difference
from controller.runtime.reconcile.plan import MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.command.planning.snapshot import Snapshot
    from controller.runtime.reconcile.kind import Kind
    from controller.runtime.reconcile.plan import Event, Plan, Write

MOST_ROUNDS = 1000
"""More plans than any cluster needs; a planner that goes on for longer never rests."""


class NeverRestsError(RuntimeError):
    """The plans of an object do not come to an end: a bug of the planner."""


@dataclass(slots=True)
class Rehearsal:
    """What was done on the way to rest.

    Attributes:
        writes: all writes but those of status, in order.
        events: what the planner had to say.
    """

    writes: list[Write] = field(default_factory=list["Write"])
    events: list[Event] = field(default_factory=list["Event"])


def rehearse(
    kind: Kind[Any], key: str, snapshot: Snapshot, now: datetime, rehearsal: Rehearsal
) -> None:
    """Bring the object `key` of the snapshot to rest; what is done is added to `rehearsal`.

    Nothing is handed over to the kind's `outside`, and nothing is known from there.

    Raises:
        NeverRestsError: after `MOST_ROUNDS` plans there was still something to do.
    """
    for _ in range(MOST_ROUNDS):
        seen = kind.observe(key, snapshot)
        if seen is None:
            return
        plan = kind.plan(seen, now)
        if not _carry_out(plan, kind, key, snapshot, rehearsal):
            return
    raise NeverRestsError(f"{kind.primary.kind} {key}: still busy after {MOST_ROUNDS} plans")


def _carry_out(
    plan: Plan, kind: Kind[Any], key: str, snapshot: Snapshot, rehearsal: Rehearsal
) -> bool:
    """Whether anything was done."""
    for lookup in plan.lookups:
        snapshot.look_up(lookup)
    if plan.lookups:
        return True
    rehearsal.events += plan.events
    writes = list(_writes(plan))
    rehearsal.writes += writes
    for write in writes:
        snapshot.carry_out(write)
    return _write_status(plan, kind, key, snapshot) or bool(writes)


def _writes(plan: Plan) -> Iterator[Write]:
    if plan.commit is not None:
        yield plan.commit
    for stage in plan.stages:
        yield from stage
    yield from plan.aside


def _write_status(plan: Plan, kind: Kind[Any], key: str, snapshot: Snapshot) -> bool:
    present = snapshot.raw(kind.primary, key)
    if plan.status is None or present is None:
        return False
    patch = difference(present.get("status"), plan.status.wanted)
    if patch:
        namespace, _, name = key.rpartition("/")
        target = Target(kind.primary, namespace, name)
        snapshot.carry_out(MergePatch(target, "", {"status": patch}, subresource="status"))
    return bool(patch)
