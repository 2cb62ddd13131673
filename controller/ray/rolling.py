"""Rolling replacement: replaces units of several groups step by step, within a budget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from msgspec import Struct, field

# The input of a rolling replacement: units, reduced to booleans, and groups of them.


class Budget(Struct, frozen=True):
    """The units that a group may lack, or have in addition, during a replacement. Not both are 0.

    Attributes:
        unavailable: units that may be missing from the desired number.
        surge: units that may exist beyond the desired number.
    """

    unavailable: int = 0
    surge: int = 1


class Unit(Struct, frozen=True):
    """The unit of replacement: a worker pod, a replica of several hosts, or a cluster.

    Attributes:
        name: identity within its group.
        up_to_date: whether it was created from the present template.
        available: whether it can do work now: ready, and known to Ray.
        joined: whether it may do or hold work: an unavailable unit that may come back, or one about
            which nothing is known. What is available has joined.
        draining: whether it gets no more work. It stays so: a draining unit is replaced even if it
            is up to date again.
        drained: whether its deletion loses no work, or its drain has taken too long.
        gone: whether it is being deleted. It still exists.
    """

    name: str
    up_to_date: bool
    available: bool = False
    joined: bool = False
    draining: bool = False
    drained: bool = False
    gone: bool = False

    @property
    def staying(self) -> bool:
        """True if it is neither draining nor being deleted."""
        return not (self.draining or self.gone)

    @property
    def is_leaving(self) -> bool:
        """True if it is draining and not yet being deleted."""
        return self.draining and not self.gone

    @property
    def is_old(self) -> bool:
        """True if it is still to be replaced."""
        return self.staying and not self.up_to_date

    @property
    def serves(self) -> bool:
        """True if it counts as available: a draining unit does not."""
        return self.staying and self.available


class UnitGroup(Struct, frozen=True):
    """Units that are created from one template.

    Attributes:
        desired: desired number of units.
        units: its units, including those being deleted; of two alike, the first is replaced first.
        unproven: whether it is unknown if units of the present template can join the others. Then
            one is tried before another is replaced.
    """

    name: str
    desired: int
    units: tuple[Unit, ...] = ()
    budget: Budget = field(default_factory=Budget)
    unproven: bool = False

    @property
    def serving(self) -> int:
        """The number of units that are available and stay so."""
        return sum(unit.serves for unit in self.units)

    @property
    def has_enough(self) -> bool:
        """True if as many units are available as the budget demands."""
        return self.serving >= self.desired - self.budget.unavailable

    @property
    def is_whole(self) -> bool:
        """True if as many units are available as it should have."""
        return self.serving >= self.desired

    @property
    def is_done(self) -> bool:
        """True if nothing is left to replace. Units that are being deleted need not be gone."""
        return not (self.is_leaving or any(unit.is_old for unit in self.units))

    @property
    def is_leaving(self) -> bool:
        """True if units are draining: it lacks them already."""
        return any(unit.is_leaving for unit in self.units)


# The turns of groups: a limited number rolls at a time, in order, each until it is finished.


class Turns(Struct, frozen=True):
    """The groups that may roll.

    Attributes:
        now: names of the groups whose units may be replaced now.
        begun: names of the groups whose turn has begun and is not finished, recorded for the next
            decision.
    """

    now: frozenset[str] = frozenset()
    begun: frozenset[str] = frozenset()


def take_turns(
    groups: Sequence[UnitGroup], at_a_time: int, begun: Collection[str] = frozenset()
) -> Turns:
    """Return the turns of groups.

    A turn that has begun ends when all units are replaced and as many as desired are available. A
    group that lacks units without having had a turn delays no other group. Groups with draining
    units come first, because they lack them already; then those that have begun.
    """
    left = [
        each for each in groups if not each.is_done or (each.name in begun and not each.is_whole)
    ]
    left.sort(key=lambda each: (not each.is_leaving, each.name not in begun))
    now = frozenset(each.name for each in left[:at_a_time])
    return Turns(now, now.union(each.name for each in left if each.name in begun))


# The next moves in one group: create, drain, delete.
#
# Invariants, for every state and whatever happens between moves:
#
# - existing units never exceed the desired number plus the surge, unless they did before;
# - a unit that is available is drained only if the others that are make up the desired number less
#   the unavailable ones of the budget;
# - no more units are drained than leave that number of units that are of use or may be again;
# - no up-to-date unit is drained or deleted, unless it was draining already;
# - if units become available and drains end, everything is replaced after a bounded number of
#   moves.
#
# A restart needs no memory: the moves follow from the units alone.


class Permission(Enum):
    """The permission to replace units of a group."""

    ROLL = "replace units"
    HOLD = "replace nothing: paused, not the group's turn, or the state of units is not known"


class Moves(Struct, frozen=True):
    """The moves that are due now. They may be made at once, in any order, or in part.

    Attributes:
        drain: names of units that should get no more work.
        delete: names of units to delete: they are drained, or were never useful.
    """

    create: int = 0
    drain: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


def next_moves(
    group: UnitGroup, permission: Permission = Permission.ROLL, *, drains: bool = True
) -> Moves:
    """Return the moves that are due in the group.

    Lost units are replaced and drained units deleted, whatever the permission.

    `drains` is False to delete units without draining them.
    """
    drained = [unit.name for unit in group.units if unit.is_leaving and unit.drained]
    create = _missing(group, permission)
    if permission is not Permission.ROLL:
        return Moves(create, (), tuple(drained))
    useless = [unit.name for unit in group.units if unit.is_old and not unit.joined]
    leaving = [unit.name for unit in _to_replace(group)]
    if drains:
        return Moves(create, tuple(leaving), (*drained, *useless))
    return Moves(create, (), (*drained, *useless, *leaving))


def _missing(group: UnitGroup, permission: Permission) -> int:
    """Return the number of units to create. A unit that is being deleted still takes its place."""
    current = [unit for unit in group.units if unit.staying and unit.up_to_date]
    surge = 0 if permission is Permission.HOLD else group.budget.surge
    if _is_trial(group):
        surge = min(surge, 1 - min(1, len(current)))
    wanted = group.desired - len(current)
    room = group.desired + surge - len(group.units)
    return max(0, min(wanted, room))


def _to_replace(group: UnitGroup) -> list[Unit]:
    """Return old units whose place is taken or that may be missing, useless ones first."""
    old = [unit for unit in group.units if unit.is_old and unit.joined]
    least = max(0, group.desired - group.budget.unavailable)
    in_flight = sum(unit.is_leaving for unit in group.units)
    serving = group.serving
    down = [unit for unit in old if not unit.serves]
    spare = min(
        serving + len(down) - least,
        group.budget.unavailable + group.budget.surge - in_flight,
        len(old) - _kept_for_trial(group),
    )
    idle = down[: max(0, spare)]
    spare = min(spare - len(idle), serving - least)
    return [*idle, *[unit for unit in old if unit.serves][: max(0, spare)]]


def _is_trial(group: UnitGroup) -> bool:
    """Return whether no unit has shown yet that those of the present template can join."""
    return group.unproven and not any(unit.up_to_date and unit.serves for unit in group.units)


def _kept_for_trial(group: UnitGroup) -> int:
    """Return the number of old units kept during a trial: all but one without surge."""
    return group.desired - (not group.budget.surge) if _is_trial(group) else 0
