"""A small world of groups that are replaced, as immutable values.

A group is the sorted tuple of its members; members have no identity, so that equal worlds meet.
`Group.after` gives every group that one event leads to: one write of the moves, or something that
happens to a member. An edit makes any member up to date or outdated: that covers an old, a new and
a third template. Moves are written one by one with anything in between, so a process that dies
after a write, and one whose writes are late, are covered too.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from typing import NamedTuple

from controller.ray.api.upgrade_strategy import ReplicaBudget
from controller.ray.rolling import Budget, Moves, Permission, Unit, UnitGroup, next_moves


class Stage(IntEnum):
    """What has become of a member."""

    BEGUN = 0  # the first of two hosts exists
    STARTING = 1
    AVAILABLE = 2
    UNREADY = 3
    DRAINING = 4
    DRAINED = 5
    BROKEN = 6  # one of two hosts was lost, so that the rest of the replica goes too
    DELETED = 7


_NEXT = {
    Stage.BEGUN: (Stage.STARTING, Stage.BROKEN),
    Stage.STARTING: (Stage.AVAILABLE, Stage.BROKEN, Stage.DELETED),
    Stage.AVAILABLE: (Stage.UNREADY, Stage.BROKEN, Stage.DELETED),
    Stage.UNREADY: (Stage.AVAILABLE, Stage.BROKEN, Stage.DELETED),
    Stage.DRAINING: (Stage.DRAINED, Stage.BROKEN, Stage.DELETED),
    Stage.DRAINED: (Stage.BROKEN, Stage.DELETED),
    Stage.BROKEN: (Stage.DELETED,),
    Stage.DELETED: (),
}
_KIND = {
    Stage.BEGUN: Stage.STARTING,
    Stage.STARTING: Stage.AVAILABLE,
    Stage.UNREADY: Stage.AVAILABLE,
    Stage.DRAINING: Stage.DRAINED,
    Stage.BROKEN: Stage.DELETED,
}


class Member(NamedTuple):
    """A unit, in what it may be in the world."""

    current: bool
    stage: Stage

    @property
    def stays(self) -> bool:
        """Whether it is neither draining nor being deleted."""
        return self.stage < Stage.DRAINING

    def unit(self, name: str) -> Unit:
        """The member as the rollout sees it."""
        stage = self.stage
        return Unit(
            name,
            up_to_date=self.current,
            available=stage is Stage.AVAILABLE,
            joined=stage not in {Stage.BEGUN, Stage.STARTING},
            draining=stage in {Stage.DRAINING, Stage.DRAINED},
            drained=stage is Stage.DRAINED,
            gone=stage in {Stage.BROKEN, Stage.DELETED},
        )


class Rules(NamedTuple):
    """What stays the same for all the time.

    Attributes:
        desired: numbers of units that may be desired, the first at the beginning.
        hosts: of each unit, 1 or 2.
        budget: of each group; percentages are those of the desired number.
        unproven: whether units of the present template may be unable to join.
        drains: whether units are drained before they are deleted.
    """

    desired: tuple[int, ...] = (3,)
    hosts: int = 1
    budget: ReplicaBudget = ReplicaBudget()
    unproven: bool = False
    drains: bool = True

    def __str__(self) -> str:
        """Short enough for the name of a test."""
        words = f"{'/'.join(map(str, self.desired))} units of {self.hosts}"
        budget = f"surge {self.budget.max_surge} unavailable {self.budget.max_unavailable}"
        kinds = " unproven" * self.unproven + " undrained" * (not self.drains)
        return f"{words} {budget}{kinds}"

    def budget_of(self, desired: int) -> Budget:
        """The budget of a group of so many units."""
        return Budget(self.budget.unavailable_of(desired), self.budget.surge_of(desired))


class Group(NamedTuple):
    """A group at one moment."""

    desired: int
    members: tuple[Member, ...]

    @classmethod
    def settled(cls, desired: int) -> Group:
        """A group in which nothing is to be done."""
        return cls(desired, (Member(True, Stage.AVAILABLE),) * desired)

    def after(self, rules: Rules) -> Iterator[Group]:
        """The groups that each single event leads to, whatever is permitted."""
        for permission in Permission:
            yield from self.writes(moves_of(self, rules, permission), rules)
        yield self.trimmed()
        for desired in rules.desired:
            yield Group(desired, self.members)
        for index, member in _distinct(self.members):
            if member.stage is Stage.DELETED:
                yield self._with(index)
            for other in _futures(member, rules.hosts):
                yield self._with(index, other)

    def writes(self, moves: Moves, rules: Rules) -> Iterator[Group]:
        """The groups after one of the writes."""
        if moves.create:
            yield self.grown(1, rules)
        for name in moves.drain:
            yield self._staged(int(name), Stage.DRAINING)
        for name in moves.delete:
            yield self._staged(int(name), Stage.DELETED)

    def moved(self, moves: Moves, rules: Rules) -> Group:
        """The group after all of the writes."""
        members = list(self.members)
        for name in moves.drain:
            members[int(name)] = _in_stage(members[int(name)], Stage.DRAINING)
        for name in moves.delete:
            members[int(name)] = _in_stage(members[int(name)], Stage.DELETED)
        return Group(self.desired, tuple(sorted(members))).grown(moves.create, rules)

    def grown(self, count: int, rules: Rules) -> Group:
        """The group with so many new units."""
        if not count:
            return self
        new = (Member(True, Stage.BEGUN if rules.hosts > 1 else Stage.STARTING),) * count
        return Group(self.desired, tuple(sorted((*self.members, *new))))

    def trimmed(self) -> Group:
        """The group after the usual scale-down of up-to-date units: the least useful one goes."""
        current = [i for i, each in enumerate(self.members) if each.current and each.stays]
        if len(current) <= self.desired:
            return self
        last = min(current, key=lambda i: self.members[i].stage is Stage.AVAILABLE)
        return self._staged(last, Stage.DELETED)

    def kind(self) -> Group:
        """The group after whatever makes progress by itself."""
        left = [each for each in self.members if each.stage is not Stage.DELETED]
        after = sorted([_in_stage(each, _KIND.get(each.stage, each.stage)) for each in left])
        return Group(self.desired, tuple(after)).trimmed()

    @property
    def serving(self) -> int:
        """Members that can do work and get it."""
        return sum(each.stage is Stage.AVAILABLE for each in self.members)

    def _staged(self, index: int, stage: Stage) -> Group:
        return self._with(index, _in_stage(self.members[index], stage))

    def _with(self, index: int, *instead: Member) -> Group:
        members = [*self.members]
        members[index : index + 1] = instead
        return Group(self.desired, tuple(sorted(members)))


@cache
def units_of(group: Group, rules: Rules) -> UnitGroup:
    """The group as the rollout sees it; a member's name is its index."""
    units = tuple(each.unit(str(index)) for index, each in enumerate(group.members))
    budget = rules.budget_of(group.desired)
    return UnitGroup("", group.desired, units, budget, rules.unproven)


@cache
def moves_of(group: Group, rules: Rules, permission: Permission) -> Moves:
    """What is due."""
    return next_moves(units_of(group, rules), permission, drains=rules.drains)


def successors(group: Group, rules: Rules) -> set[Group]:
    """The groups that one event leads to, whatever is permitted."""
    return set(group.after(rules)) - {group}


@cache
def _in_stage(member: Member, stage: Stage) -> Member:
    """The member in another stage."""
    return member._replace(stage=stage)


@cache
def _futures(member: Member, hosts: int) -> tuple[Member, ...]:
    """What one event makes of a member that is still there."""
    stages = (each for each in _NEXT[member.stage] if each is not Stage.BROKEN or hosts > 1)
    edited = member._replace(current=not member.current)
    return (*(_in_stage(member, each) for each in stages), edited)


def _distinct(members: tuple[Member, ...]) -> Iterator[tuple[int, Member]]:
    """One of all alike."""
    for index, member in enumerate(members):
        if not index or members[index - 1] != member:
            yield index, member
