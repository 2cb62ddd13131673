"""Single decisions of a rolling replacement; `test_every_state.py` has the promises."""

from __future__ import annotations

from msgspec.structs import replace

from controller.ray.rolling import (
    Budget,
    Moves,
    Unit,
    UnitGroup,
    next_moves,
)

SURGE, IN_PLACE = Budget(0, 1), Budget(1, 0)


def old(name: str) -> Unit:
    return Unit(name, up_to_date=False, available=True, joined=True)


def new(name: str) -> Unit:
    return Unit(name, up_to_date=True, available=True, joined=True)


def group(*units: Unit, desired: int = 3, budget: Budget = SURGE, name: str = "g") -> UnitGroup:
    return UnitGroup(name, desired, units, budget)


THREE_OLD = old("a"), old("b"), old("c")


def test_one_unproven_unit_is_tried_before_others_are_touched() -> None:
    budget = Budget(1, 3)
    tried = replace(group(*THREE_OLD, budget=budget), unproven=True)
    assert next_moves(tried) == Moves(create=1)
    assert next_moves(replace(tried, units=(*THREE_OLD, Unit("n", up_to_date=True)))) == Moves()
    proven = replace(tried, units=(*THREE_OLD, new("n")))
    assert next_moves(proven) == Moves(create=2, drain=("a", "b"))
