"""The next copies to create and to retire.

Their number comes from the pure function that rolling upgrades of a RayCluster use too. This module
chooses indexes: an index without any copy comes first, and a copy with a ready replacement retires
first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.ray.fleet.template import copy_name
from controller.ray.rolling import Budget, Permission, Unit, UnitGroup, next_moves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controller.ray.fleet.copies import Copy
    from controller.ray.fleet.observation import FleetObservation


@dataclass(frozen=True, slots=True)
class FleetStep:
    """The changes that are due now; all of them may be made at once.

    Attributes:
        create: indexes that get an up-to-date copy.
        retire: outdated copies to delete.
        remove: copies to delete because the fleet has fewer indexes now.
    """

    create: tuple[int, ...] = ()
    retire: tuple[Copy, ...] = ()
    remove: tuple[Copy, ...] = ()


def next_step(seen: FleetObservation) -> FleetStep:
    """Return the next step of a valid fleet."""
    strategy, staying = seen.valid_goal.spec.strategy, _by_index(seen)
    units = tuple(_units(seen, staying))
    budget = Budget(strategy.unavailable_of(seen.desired), strategy.surge_of(seen.desired))
    permission = Permission.HOLD if strategy.paused else Permission.ROLL
    group = UnitGroup("copies", seen.desired, units, budget)
    moves = next_moves(group, permission, drains=False)
    empty = [index for index, copies in staying.items() if not copies]
    outdated = [
        index
        for index, copies in staying.items()
        if copies and not any(copy.up_to_date for copy in copies)
    ]
    room = seen.desired + budget.surge - len(units)
    number = max(moves.create, min(len(empty), room))
    taken = {*seen.name_conflicts, *(copy.name for copy in seen.copies)}
    free = [index for index in (*empty, *outdated) if _name(seen, index) not in taken]
    return FleetStep(
        tuple(free[:number]),
        tuple(copy for copy in seen.wanted if copy.name in moves.delete),
        tuple(copy for copy in reversed(seen.surplus) if copy.stays),
    )


def _by_index(seen: FleetObservation) -> dict[int, list[Copy]]:
    """Return the copies of each index that are not being deleted."""
    found: dict[int, list[Copy]] = {index: [] for index in range(seen.desired)}
    for copy in seen.wanted:
        if copy.stays:
            found[copy.index].append(copy)
    return found


def _units(seen: FleetObservation, staying: Mapping[int, Sequence[Copy]]) -> Iterator[Unit]:
    """Yield the copies: those whose index needs them least first, of two alike the newer.

    Copies beyond the number of indexes count as gone, though they still exist.
    """

    def need(copy: Copy) -> tuple[int, int]:
        others = [other for other in staying[copy.index] if other is not copy]
        if any(map(seen.is_available, others)):
            return 0, copy.index
        return (1 if any(other.up_to_date for other in others) else 2), copy.index

    newest_first = list(reversed(seen.wanted))
    for copy in sorted(newest_first, key=need):
        available = seen.is_available(copy)
        joined = available or copy.was_of_use
        yield Unit(copy.name, copy.up_to_date, available, joined, gone=not copy.stays)
    for copy in seen.surplus:
        yield Unit(copy.name, up_to_date=False, gone=True)


def _name(seen: FleetObservation, index: int) -> str:
    return copy_name(seen.fleet.metadata, index, seen.valid_goal.template_hash)
