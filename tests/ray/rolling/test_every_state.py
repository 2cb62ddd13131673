"""Visits every state that a rolling replacement can reach, and checks the promises in each.

R1: existing units stay within the desired number plus the surge, or become no more. R2: what is
drained leaves the desired number less the unavailable ones available. R3: neither does it leave
fewer units that are of use or may be again. R4: no up-to-date unit is drained, nor deleted unless
it was draining. R5: nothing present is touched while it must not be. R6: one unit is tried before
others are touched. R7: from each state there is an end.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from controller.ray.rolling import (
    Budget,
    Moves,
    Permission,
    Unit,
    UnitGroup,
    next_moves,
)
from tests.ray.rolling.walk import RULES, after_progress, reachable, steps_to_the_end
from tests.ray.rolling.world import Group, Member, Rules, Stage, moves_of

OF_USE = frozenset({Stage.AVAILABLE, Stage.UNREADY})
GOING = frozenset({Stage.DRAINING, Stage.DRAINED, Stage.BROKEN, Stage.DELETED})


def check_moves(group: Group, rules: Rules, permission: Permission) -> None:
    moves = moves_of(group, rules, permission)
    check_numbers(group, group.moved(moves, rules), rules)
    for name in moves.drain:
        member = group.members[int(name)]
        assert not member.current, "R4"
        assert member.stage in OF_USE, "only what may have work is drained"
        assert rules.drains
    for name in moves.delete:
        check_deletion(group.members[int(name)], rules)
    if permission is not Permission.ROLL:
        assert not moves.drain, "R5"
        assert all(group.members[int(name)].stage is Stage.DRAINED for name in moves.delete), "R5"
    if permission is Permission.HOLD:
        assert moves.create <= max(0, group.desired - len(group.members)), "R5"
    if rules.unproven:
        check_trial(group, moves, rules)


def check_numbers(before: Group, after: Group, rules: Rules) -> None:
    budget = rules.budget_of(before.desired)
    most = before.desired + budget.surge
    assert len(after.members) <= max(len(before.members), most), "R1"
    least = before.desired - budget.unavailable
    assert after.serving >= min(before.serving, least), "R2"
    assert _promising(after) >= min(_promising(before), least), "R3"


def check_deletion(member: Member, rules: Rules) -> None:
    if member.stage is Stage.DRAINED:
        return
    assert not member.current, "R4"
    assert not rules.drains or member.stage not in OF_USE, "R4: deleted without having been drained"
    assert member.stage not in GOING


def check_trial(group: Group, moves: Moves, rules: Rules) -> None:
    if any(each == Member(True, Stage.AVAILABLE) for each in group.members):
        return
    current = sum(each.current and each.stage not in GOING for each in group.members)
    missing = max(0, group.desired - len(group.members))
    assert moves.create <= missing + max(0, 1 - current), "R6"
    touched = [name for name in moves.drain + moves.delete if _is_useful(group, name)]
    old = sum(not each.current and each.stage in OF_USE for each in group.members)
    assert len(touched) <= max(
        0, old - group.desired + (not rules.budget_of(group.desired).surge)
    ), "R6"


def _is_useful(group: Group, name: str) -> bool:
    return group.members[int(name)].stage in OF_USE


def _promising(group: Group) -> int:
    """Members that are available, and outdated ones that may be again."""
    return sum(
        each.stage is Stage.AVAILABLE or (each.stage is Stage.UNREADY and not each.current)
        for each in group.members
    )


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_every_reachable_state_keeps_the_promises(
    rules: Rules, record_property: Callable[[str, object], None]
) -> None:
    groups = reachable(rules)
    for group in groups:
        for permission in Permission:
            check_moves(group, rules, permission)
    ways = sum(groups.values())
    record_property("told", f"rolling: {len(groups)} states, {ways} transitions: {rules}")


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("heals", [True, False], ids=["heals", "stays unready"])
def test_from_every_state_there_is_an_end(  # R7
    rules: Rules, heals: bool, record_property: Callable[[str, object], None]
) -> None:
    left = steps_to_the_end(
        reachable(rules), lambda group: after_progress(group, rules, Permission.ROLL, heals=heals)
    )
    for group in (group for group, steps in left.items() if not steps):
        assert group.members == (Member(True, Stage.AVAILABLE),) * group.desired
    record_property("told", f"rolling: at most {max(left.values())} steps: {rules}")
    most = max(desired + rules.budget_of(desired).surge for desired in rules.desired)
    assert max(left.values()) <= 6 * most + 6


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
