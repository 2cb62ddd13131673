"""Any two groups of one cluster take turns, and both end, whatever state each of them is in.

All pairs of states would be 300 million. Groups that show the same for ever, whatever turns they
get, are of one kind, and all pairs and triples of kinds are few.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import NamedTuple, TypeVar

import pytest

from controller.ray.api.upgrade_strategy import ReplicaBudget
from controller.ray.rolling import Permission, Turns, Unit, UnitGroup, take_turns
from tests.ray.rolling.walk import RULES, after_progress, reachable, steps_to_the_end
from tests.ray.rolling.world import Group, Rules, units_of

T = TypeVar("T")
SLOW = (pytest.mark.slow, pytest.mark.rare, pytest.mark.timeout(600))
THREE_GROUPS = (
    Rules((1,), budget=ReplicaBudget(max_unavailable=1, max_surge=0)),
    pytest.param(Rules((1, 0)), marks=SLOW),
    pytest.param(
        Rules((2,), budget=ReplicaBudget(max_unavailable="50%", max_surge="0%")), marks=SLOW
    ),
    pytest.param(
        Rules((1,), budget=ReplicaBudget(max_unavailable=1, max_surge=1), unproven=True), marks=SLOW
    ),
)
ROLL = Permission.ROLL


class Shown(NamedTuple):
    """All that matters of a group to others: its turn depends on no more."""

    done: bool
    leaving: bool
    whole: bool

    def example(self, name: str) -> UnitGroup:
        """A group that shows this."""
        old = Unit("old", up_to_date=False, joined=True, draining=self.leaving)
        new = Unit("new", up_to_date=True, available=True, joined=True)
        return UnitGroup(name, 1, (old,) * (not self.done) + (new,) * self.whole)


class Kind(NamedTuple):
    """Groups that nobody can tell apart, now and after any number of steps.

    Attributes:
        shown: by each of them.
        after: the number of the kind that they become, by the permission for the step.
    """

    shown: Shown
    after: Mapping[Permission, int]


def shown(group: Group, rules: Rules) -> Shown:
    """The group as others see it."""
    seen = units_of(group, rules)
    leaving = any(unit.is_leaving for unit in seen.units)
    return Shown(seen.is_done, leaving, seen.is_whole)


def kinds_of(rules: Rules, *, heals: bool) -> Sequence[Kind]:
    """The kinds of all reachable groups, in a world that makes progress by itself."""
    after = {
        group: {each: after_progress(group, rules, each, heals=heals) for each in Permission}
        for group in reachable(rules)
    }
    kinds = _numbered({group: shown(group, rules) for group in after})
    count = 0
    while count < len(set(kinds.values())):
        count = len(set(kinds.values()))
        kinds = _numbered(
            {
                group: (kinds[group], *(kinds[each] for each in then.values()))
                for group, then in after.items()
            }
        )
    examples = {kind: group for group, kind in kinds.items()}
    return [
        Kind(
            shown(group, rules),
            {permission: kinds[each] for permission, each in after[group].items()},
        )
        for _, group in sorted(examples.items())
    ]


def _numbered(signs: Mapping[T, Hashable]) -> Mapping[T, int]:
    """A number for each, the same for those of the same sign."""
    numbers: dict[Hashable, int] = {}
    return {each: numbers.setdefault(sign, len(numbers)) for each, sign in signs.items()}


class Turn(NamedTuple):
    """The turns of some groups, in their order.

    Attributes:
        permissions: for the next step.
        begun: whether its turn has begun and not ended.
    """

    permissions: tuple[Permission, ...]
    begun: tuple[bool, ...]


@cache
def turns(shown: tuple[Shown, ...], begun: tuple[bool, ...], at_a_time: int) -> Turn:
    """The turns of groups that show this, of which some have begun."""
    groups = [each.example(str(number)) for number, each in enumerate(shown)]
    names = {each.name for each, has_begun in zip(groups, begun, strict=True) if has_begun}
    taken = take_turns(groups, at_a_time, names)
    return Turn(
        tuple(ROLL if each.name in taken.now else Permission.HOLD for each in groups),
        tuple(each.name in taken.begun for each in groups),
    )


SHOWN = tuple(Shown(*each) for each in product((False, True), repeat=3) if each[:2] != (True, True))
"""All that a group can show: what is done has no draining units."""


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_a_turn_depends_only_on_what_a_group_shows(rules: Rules):
    others = [other.example("1") for other in SHOWN]
    begun = [set(names) for count in range(3) for names in combinations(["", "1"], count)]
    cases = list(product(others, begun))

    def turns_beside(group: UnitGroup) -> list[tuple[Turns, Turns]]:
        return [
            (take_turns([group, other], 1, names), take_turns([other, group], 1, names))
            for other, names in cases
        ]

    expected = {each: turns_beside(each.example("")) for each in SHOWN}
    for group in reachable(rules):
        assert turns_beside(units_of(group, rules)) == expected[shown(group, rules)]


@pytest.mark.parametrize("at_a_time", [1, 2, 3])
def test_so_many_groups_have_the_turn_and_each_keeps_it_until_it_is_finished(at_a_time: int):
    for groups, begun in product(product(SHOWN, repeat=3), product((False, True), repeat=3)):
        turn = turns(groups, begun, at_a_time)
        left = [
            not each.done or (had and not each.whole)
            for each, had in zip(groups, begun, strict=True)
        ]
        rolling = [each is ROLL for each in turn.permissions]
        assert sum(rolling) == min(at_a_time, sum(left))
        assert turn.begun == tuple(
            goes_on and (had or has) for goes_on, had, has in zip(left, begun, rolling, strict=True)
        )
        order = [
            (not each.leaving, not had, number)
            for number, (each, had) in enumerate(zip(groups, begun, strict=True))
        ]
        having = [key for key, has in zip(order, rolling, strict=True) if has]
        waiting = [
            key
            for key, has, goes_on in zip(order, rolling, left, strict=True)
            if goes_on and not has
        ]
        assert not waiting or max(having) < min(waiting)
        if not any(each.leaving for each in groups):
            before = sum(had and goes_on for had, goes_on in zip(begun, left, strict=True))
            assert sum(turn.begun) <= max(at_a_time, before)


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("heals", [True, False], ids=["heals", "stays unready"])
def test_any_two_groups_take_turns_and_both_end(
    rules: Rules, heals: bool, record_property: Callable[[str, object], None]
) -> None:
    states, most = walk(kinds_of(rules, heals=heals), groups=2, at_a_time=1)
    record_property(
        "told",
        f"rolling: two groups, {len(reachable(rules)) ** 2} pairs of states, "
        f"{states} of kinds, at most {most} steps: {rules}",
    )


@pytest.mark.parametrize("at_a_time", [1, 2, 3])
@pytest.mark.parametrize("rules", THREE_GROUPS, ids=str)
def test_any_three_groups_take_turns_so_many_at_a_time_and_all_end(
    rules: Rules, at_a_time: int, record_property: Callable[[str, object], None]
) -> None:
    states, most = walk(kinds_of(rules, heals=True), groups=3, at_a_time=at_a_time)
    record_property(
        "told",
        f"rolling: three groups, {at_a_time} at a time, {len(reachable(rules)) ** 3} states, "
        f"{states} of kinds, at most {most} steps: {rules}",
    )


def walk(kinds: Sequence[Kind], *, groups: int, at_a_time: int) -> tuple[int, int]:
    """Follow groups of any kinds to their end, whichever of them have begun.

    Returns:
        the number of states, and of steps to the end at the most.
    """
    all_shown = [each.shown for each in kinds]
    after = {how: [each.after[how] for each in kinds] for how in Permission}
    all_begun = list(product((False, True), repeat=groups))

    @cache
    def ways(of: tuple[Shown, ...], begun: int) -> tuple[list[Sequence[int]], int]:
        """What each kind becomes, for each group, and the number of what has begun then."""
        turn = turns(of, all_begun[begun], at_a_time)
        return [after[how] for how in turn.permissions], all_begun.index(turn.begun)

    def successor(state: tuple[int, ...]) -> tuple[int, ...]:
        """States are the groups' kinds and what has begun, by their numbers: they are many."""
        *numbers, begun = state
        becoming, begun = ways(tuple([all_shown[each] for each in numbers]), begun)
        return (*[each[number] for each, number in zip(becoming, numbers, strict=True)], begun)

    starts = product(*(range(len(kinds)) for _ in range(groups)), range(len(all_begun)))
    left = steps_to_the_end(starts, successor)
    for *numbers, begun in (state for state, steps in left.items() if not steps):
        assert all(kinds[each].shown == Shown(True, False, True) for each in numbers)
        assert not any(all_begun[begun])
    return len(left), max(left.values())


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_a_group_without_a_turn_comes_to_rest(rules: Rules):
    steps_to_the_end(reachable(rules), lambda group: after_progress(group, rules, Permission.HOLD))
