"""Any two groups of one cluster take turns, and both end, whatever state each of them is in.

All pairs of states would be 300 million. Groups that show the same for ever, whatever turns they
get, are of one kind, and all pairs of kinds are few.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest

from controller.ray.rolling import Permission, rolling_groups
from tests.ray.rolling.walk import RULES, after_progress, reachable, steps_to_the_end
from tests.ray.rolling.world import units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from tests.ray.rolling.world import Group, Rules

T = TypeVar("T")
ROLL = Permission.ROLL


class Shown(NamedTuple):
    """All that matters of a group to others: its turn depends on no more."""

    done: bool
    leaving: bool
    complete: bool


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
    return Shown(seen.is_done, leaving, group.serving == group.desired)


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


def turns(first: Group, second: Group, rules: Rules) -> tuple[Permission, Permission]:
    """The permission of each group, one at a time."""
    one, other = units_of(first, rules, "first"), units_of(second, rules, "second")
    names = rolling_groups([one, other], 1)
    return _permission(one.name in names), _permission(other.name in names)


def _permission(has_turn: bool) -> Permission:
    return ROLL if has_turn else Permission.HOLD


@cache
def turns_by_shown(rules: Rules) -> Mapping[tuple[Shown, Shown], tuple[Permission, Permission]]:
    """The permissions of two groups by what they show, from one example of each."""
    examples = {shown(group, rules): group for group in reachable(rules)}
    return {
        (one, other): turns(examples[one], examples[other], rules)
        for one, other in product(examples, repeat=2)
    }


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_a_turn_depends_only_on_what_a_group_shows(rules: Rules):
    examples = {shown(group, rules): group for group in reachable(rules)}
    table = turns_by_shown(rules)
    for group in reachable(rules):
        own = shown(group, rules)
        for sign, example in examples.items():
            assert turns(group, example, rules) == table[own, sign]
            assert turns(example, group, rules) == table[sign, own]


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_one_group_has_the_turn_and_one_with_leaving_units_first(rules: Rules):
    for groups, permissions in turns_by_shown(rules).items():
        having = [each for each, got in zip(groups, permissions, strict=True) if got is ROLL]
        assert len(having) == any(not each.done for each in groups)
        for each in having:
            assert not each.done
            assert each.leaving or not any(other.leaving for other in groups)


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("heals", [True, False], ids=["heals", "stays unready"])
def test_any_two_groups_take_turns_and_both_end(
    rules: Rules, heals: bool, record_property: Callable[[str, object], None]
) -> None:
    kinds = kinds_of(rules, heals=heals)
    table = turns_by_shown(rules)

    def successor(pair: tuple[int, int]) -> tuple[int, int]:
        first, second = kinds[pair[0]], kinds[pair[1]]
        one, other = table[first.shown, second.shown]
        return first.after[one], second.after[other]

    pairs = [(one, other) for one in range(len(kinds)) for other in range(len(kinds))]
    left = steps_to_the_end(pairs, successor)
    for pair in (pair for pair, steps in left.items() if not steps):
        assert all(kinds[each].shown == Shown(True, False, True) for each in pair)
    record_property(
        "told",
        f"rolling: two groups, {len(reachable(rules)) ** 2} pairs of states, "
        f"{len(pairs)} of kinds, at most {max(left.values())} steps: {rules}",
    )


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_a_group_without_a_turn_comes_to_rest(rules: Rules):
    steps_to_the_end(reachable(rules), lambda group: after_progress(group, rules, Permission.HOLD))
