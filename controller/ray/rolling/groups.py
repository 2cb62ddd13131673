"""The groups that may roll now: so many at a time, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.ray.rolling.units import UnitGroup


def rolling_groups(groups: Sequence[UnitGroup], at_a_time: int) -> frozenset[str]:
    """Names of the groups whose turn it is.

    A group with draining units has its turn first, because it lacks them already.
    """
    left = [group for group in groups if not group.is_done]
    left.sort(key=lambda group: not any(unit.is_leaving for unit in group.units))
    return frozenset(group.name for group in left[:at_a_time])
