"""Single decisions of a rolling replacement; `test_every_state.py` has the promises."""

from __future__ import annotations

from dataclasses import replace

from controller.ray.rolling import (
    Budget,
    Moves,
    Permission,
    Unit,
    UnitGroup,
    next_moves,
    take_turns,
)

SURGE, IN_PLACE = Budget(0, 1), Budget(1, 0)


def old(name: str) -> Unit:
    return Unit(name, up_to_date=False, available=True, joined=True)


def new(name: str) -> Unit:
    return Unit(name, up_to_date=True, available=True, joined=True)


def group(*units: Unit, desired: int = 3, budget: Budget = SURGE, name: str = "g") -> UnitGroup:
    return UnitGroup(name, desired, units, budget)


THREE_OLD = old("a"), old("b"), old("c")


def test_with_surge_a_new_unit_comes_before_an_old_one_is_drained() -> None:
    assert next_moves(group(*THREE_OLD)) == Moves(create=1)
    starting = Unit("n", up_to_date=True)
    assert next_moves(group(*THREE_OLD, starting)) == Moves()
    assert next_moves(group(*THREE_OLD, new("n"))) == Moves(drain=("a",))


def test_without_surge_an_old_unit_is_drained_before_a_new_one_comes() -> None:
    assert next_moves(group(*THREE_OLD, budget=IN_PLACE)) == Moves(drain=("a",))
    assert next_moves(group(*THREE_OLD[:2], budget=IN_PLACE)) == Moves(create=1)


def test_a_unit_that_is_being_deleted_keeps_its_place_until_it_is_gone() -> None:
    leaving = replace(old("a"), draining=True, drained=True, gone=True)
    assert next_moves(group(leaving, *THREE_OLD[1:], new("n"))) == Moves()


def test_a_drained_unit_is_deleted_also_while_nothing_is_to_be_replaced() -> None:
    drained = replace(old("a"), draining=True, drained=True)
    units = group(drained, *THREE_OLD[1:], new("n"))
    for permission in Permission:
        assert next_moves(units, permission).delete == ("a",)


def test_an_old_unit_that_never_was_of_use_goes_without_a_drain() -> None:
    pending = Unit("p", up_to_date=False)
    assert next_moves(group(*THREE_OLD, pending)).delete == ("p",)


def test_an_unready_old_unit_makes_room_first() -> None:
    unready = Unit("u", up_to_date=False, joined=True)
    assert next_moves(group(old("a"), unready, old("c"), new("n"))) == Moves(drain=("u",))


def test_units_that_are_unready_for_a_moment_are_not_all_drained() -> None:
    unready = [Unit(name, up_to_date=False, joined=True) for name in "abc"]
    assert next_moves(group(*unready, budget=IN_PLACE)) == Moves(drain=("a",))


def test_a_draining_unit_is_replaced_although_its_template_is_wanted_again() -> None:
    undone = replace(new("a"), draining=True)
    units = group(undone, new("b"), new("c"))
    assert next_moves(units) == Moves(create=1)
    assert not units.is_done


def test_held_groups_only_make_up_for_lost_units() -> None:
    assert next_moves(group(*THREE_OLD), Permission.HOLD) == Moves()
    assert next_moves(group(*THREE_OLD[:1]), Permission.HOLD) == Moves(create=2)


def test_a_large_surge_replaces_several_at_a_time() -> None:
    assert next_moves(group(*THREE_OLD, budget=Budget(0, 3))) == Moves(create=3)
    both = group(*THREE_OLD, new("n"), new("m"), budget=Budget(0, 3))
    assert next_moves(both) == Moves(create=1, drain=("a", "b"))


def test_old_units_beyond_the_desired_number_are_drained_within_the_budget() -> None:
    many = [old(f"u{number}") for number in range(9)]
    assert next_moves(group(*many, desired=2)) == Moves(drain=("u0",))


def test_a_group_that_is_scaled_to_nothing_loses_its_old_units() -> None:
    assert next_moves(group(*THREE_OLD, desired=0)) == Moves(drain=("a",))
    assert group(desired=0).is_done


def test_one_unproven_unit_is_tried_before_others_are_touched() -> None:
    budget = Budget(1, 3)
    tried = replace(group(*THREE_OLD, budget=budget), unproven=True)
    assert next_moves(tried) == Moves(create=1)
    assert next_moves(replace(tried, units=(*THREE_OLD, Unit("n", up_to_date=True)))) == Moves()
    proven = replace(tried, units=(*THREE_OLD, new("n")))
    assert next_moves(proven) == Moves(create=2, drain=("a", "b"))


def test_without_surge_one_old_unit_makes_room_for_the_trial() -> None:
    budget = Budget(2, 0)
    tried = replace(group(*THREE_OLD, budget=budget), unproven=True)
    assert next_moves(tried) == Moves(drain=("a",))
    begun = replace(tried, units=(*THREE_OLD[1:], Unit("n", up_to_date=True)))
    assert next_moves(begun) == Moves()


def test_a_group_with_draining_units_has_its_turn_first() -> None:
    first = group(*THREE_OLD, name="one")
    second = group(replace(old("a"), draining=True), name="two")
    assert take_turns((first, second), 1).now == {"two"}
