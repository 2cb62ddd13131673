"""The next moves in one group: create, drain, delete.

Invariants, for every state and whatever happens between moves:

* existing units never exceed the desired number plus the surge, unless they did before;
* a unit that is available is drained only if the others that are make up the desired number less
  the unavailable ones of the budget;
* no more units are drained than leave that number of units that are of use or may be again;
* no up-to-date unit is drained or deleted, unless it was draining already;
* if units become available and drains end, everything is replaced after a bounded number of moves.

A restart needs no memory: the moves follow from the units alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.ray.rolling.units import Unit, UnitGroup


class Permission(Enum):
    """The permission to replace units of a group."""

    ROLL = "replace units"
    HOLD = "replace nothing: paused, not the group's turn, or the state of units is not known"


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves that are due now. They may be made at once, in any order, or in part.

    Attributes:
        create: number of new units.
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

    Args:
        group: the observed units.
        permission: the permission to replace its units.
        drains: False to delete units without draining them.
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
