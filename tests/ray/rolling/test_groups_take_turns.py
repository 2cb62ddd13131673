"""Any two groups of one cluster take turns, and both end, whatever state each of them is in.

All pairs of states would be 300 million. Groups that show the same for ever, whatever turns they
get, are of one kind, and all pairs and triples of kinds are few.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest

from controller.ray.api.fields.replica_budget import ReplicaBudget
from controller.ray.rolling import Permission, Unit, UnitGroup, take_turns
from tests.ray.rolling.walk import RULES, after_progress, reachable, steps_to_the_end
from tests.ray.rolling.world import Rules, units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from tests.ray.rolling.world import Group

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


class State(NamedTuple):
    """Groups at one moment.

    Attributes:
        kinds: number of each group's kind.
        begun: whether its turn has begun and not ended.
    """

    kinds: tuple[int, ...]
    begun: tuple[bool, ...]


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
def turns(groups: tuple[Shown, ...], begun: tuple[bool, ...], at_a_time: int) -> Turn:
    """The turns of groups that show this."""
    return turns_of([each.example(str(n)) for n, each in enumerate(groups)], begun, at_a_time)


def turns_of(groups: Sequence[UnitGroup], begun: Sequence[bool], at_a_time: int) -> Turn:
    """The turns of groups, of which some have begun."""
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
    for group in reachable(rules):
        own, seen = shown(group, rules), units_of(group, rules, "0")
        for other, begun in product(SHOWN, product((False, True), repeat=2)):
            example = other.example("1")
            assert turns_of([seen, example], begun, 1) == turns((own, other), begun, 1)
            assert turns_of([example, seen], begun, 1) == turns((other, own), begun, 1)


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

    def successor(state: State) -> State:
        members = [kinds[number] for number in state.kinds]
        turn = turns(tuple(each.shown for each in members), state.begun, at_a_time)
        after = (each.after[how] for each, how in zip(members, turn.permissions, strict=True))
        return State(tuple(after), turn.begun)

    numbers = range(len(kinds))
    begun = list(product((False, True), repeat=groups))
    starts = (State(*each) for each in product(product(numbers, repeat=groups), begun))
    left = steps_to_the_end(starts, successor)
    for state in (state for state, steps in left.items() if not steps):
        assert all(kinds[each].shown == Shown(True, False, True) for each in state.kinds)
        assert not any(state.begun)
    return len(left), max(left.values())


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_a_group_without_a_turn_comes_to_rest(rules: Rules):
    steps_to_the_end(reachable(rules), lambda group: after_progress(group, rules, Permission.HOLD))
