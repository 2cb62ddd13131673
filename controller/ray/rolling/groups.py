"""The turns of groups: a limited number rolls at a time, in order, each until it is finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from controller.ray.rolling.units import UnitGroup


@dataclass(frozen=True, slots=True)
class Turns:
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

    Args:
        groups: all groups, in their order.
        at_a_time: number of groups that may roll now.
        begun: recorded names of the groups whose turn has begun.
    """
    left = [each for each in groups if not each.is_done or _awaits_units(each, begun)]
    left.sort(key=lambda each: (not _is_leaving(each), each.name not in begun))
    now = frozenset(each.name for each in left[:at_a_time])
    return Turns(now, now.union(each.name for each in left if each.name in begun))


def _awaits_units(group: UnitGroup, begun: Collection[str]) -> bool:
    return group.name in begun and not group.is_whole


def _is_leaving(group: UnitGroup) -> bool:
    return any(unit.is_leaving for unit in group.units)
