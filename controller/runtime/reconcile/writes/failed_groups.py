"""Lets the writes of one object that keep failing take turns.

Creates of the same resource and scope are alike, and so are deletes: one failure predicts the
others. Any other write is a group of its own. Once groups of an object have failed, each reconcile
tries one of them with a single write, in turn. Its success releases all groups. So an object with
ten failures costs as few requests as one with a single failure, and the end of a failure is noticed
as soon. A group of deletes tries another object each time, and failed ones come last, because the
server may refuse to delete one object only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from controller.runtime.plan import Delete, verb_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.resources import Resource
    from controller.runtime.plan import Failure, Plan, Target, Write

Group: TypeAlias = "tuple[str, Resource[Any], str, str]"
"""Verb, resource and scope; for updates also the name."""


@dataclass(slots=True)
class FailedGroups:
    """The groups of one object whose last write failed, the least recently tried first.

    Attributes:
        generation: generation of the object; its change releases all groups.
        failures: the last failure of each group.
        turn: the group that is tried in this reconcile.
        waiting: the groups that are not.
        undeleted: the objects whose deletion has failed, the one tried longest ago first.
    """

    generation: int
    failures: dict[Group, Failure] = field(default_factory=dict["Group", "Failure"])
    turn: Group | None = None
    waiting: set[Group] = field(default_factory=set["Group"])
    undeleted: list[Target] = field(default_factory=list["Target"])

    def begin(self, plan: Plan, generation: int) -> None:
        """Choose the group of this reconcile; forget what the plan does not write."""
        stages = [{_group_of(write) for write in stage} for stage in plan.stages]
        independent = {_group_of(write) for write in plan.independent}
        planned = independent.union(*stages)
        if generation != self.generation:
            self.generation = generation
            self.failures.clear()
            self.undeleted.clear()
        if self.undeleted:
            writes = chain(*plan.stages, plan.independent)
            targets = {write.target for write in writes}
            self.undeleted = [each for each in self.undeleted if each in targets]
        self.failures = {group: last for group, last in self.failures.items() if group in planned}
        stage = next((stage for stage in stages if stage & self.failures.keys()), set[Group]())
        self.turn = next((g for g in self.failures if g in stage or g in independent), None)
        self.waiting = self.failures.keys() - {self.turn}

    def held(self, write: Write) -> Failure | None:
        """Return the last failure of this write's group, if the group waits for its turn."""
        group = _group_of(write)
        return replace(self.failures[group], write=write) if group in self.waiting else None

    def probe(self, writes: Sequence[Write]) -> Write | None:
        """Return the write that tries the failed group, if it is among these; it is sent first."""
        tried = self.in_order(writes)
        return next((write for write in tried if _group_of(write) == self.turn), None)

    def in_order(self, writes: Sequence[Write]) -> list[Write]:
        """Return the writes in order, with failed deletes at the end."""
        if not self.undeleted:
            return list(writes)
        ranks = {target: rank for rank, target in enumerate(self.undeleted)}
        return sorted(writes, key=lambda write: ranks.get(write.target, -1))

    def succeeded(self, write: Write) -> None:
        """Record a successful write: if it tried its group, release all groups."""
        if _group_of(write) == self.turn:
            self.turn = None
            self.waiting.clear()
            self.failures.clear()

    def failed(self, failure: Failure) -> None:
        """Record a failed write: its group waits for its next turn."""
        group = _group_of(failure.write)
        self.failures.pop(group, None)
        self.failures[group] = failure
        target = failure.write.target
        if isinstance(failure.write, Delete):
            self.undeleted = [each for each in self.undeleted if each != target] + [target]


def _group_of(write: Write) -> Group:
    verb, target = verb_of(write), write.target
    return verb, target.resource, target.scope, target.name if verb == "update" else ""
