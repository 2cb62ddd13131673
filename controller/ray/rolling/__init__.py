"""Rolling replacement: replaces units of several groups step by step, within a budget.

Pure functions on values, shared by the kinds: a unit is a worker pod, a replica of several hosts,
or a whole cluster. `take_turns` chooses the groups that may roll now, `next_moves` the moves in
one.
"""

from __future__ import annotations

from controller.ray.rolling.groups import Turns, take_turns
from controller.ray.rolling.moves import Moves, Permission, next_moves
from controller.ray.rolling.units import Budget, Unit, UnitGroup

__all__ = [
    "Budget",
    "Moves",
    "Permission",
    "Turns",
    "Unit",
    "UnitGroup",
    "next_moves",
    "take_turns",
]
