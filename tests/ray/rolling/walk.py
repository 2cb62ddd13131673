"""Walks over the world of groups: all states that can be reached, and how far from an end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from typing import TypeVar

import pytest

from controller.ray.api.upgrade_strategy import ReplicaBudget
from controller.ray.rolling import Permission
from tests.ray.rolling.world import Group, Member, Rules, Stage, moves_of, successors

BUDGETS = tuple(
    ReplicaBudget(max_unavailable=unavailable, max_surge=surge)
    for unavailable, surge in ((0, 1), (1, 0), (1, 1), (0, 2), (2, 0))
)
"""As numbers."""

PERCENTAGES = tuple(
    ReplicaBudget(max_unavailable=unavailable, max_surge=surge)
    for unavailable, surge in (("0%", "50%"), ("50%", "0%"), ("10%", "0%"), ("100%", "100%"))
)
"""Numbers that change with the desired one. 10 % of few units is none, where nothing could move."""

SICK = Member(current=False, stage=Stage.UNREADY)
T = TypeVar("T")


def _rules() -> Iterator[Rules]:
    for budget in BUDGETS[:3]:
        yield Rules((2,), budget=budget)
        yield Rules((1,), budget=budget, unproven=True)
        yield Rules((1,), budget=budget, hosts=2)
    yield Rules((1, 0))
    for budget in PERCENTAGES:
        yield Rules((1, 0), budget=budget)
    yield Rules((2,), drains=False)


def _slow_rules() -> Iterator[Rules]:
    for budget, hosts in product(BUDGETS, (1, 2)):
        yield Rules((3,), hosts, budget)
        yield Rules((3,), hosts, budget, unproven=True)
    for budget in BUDGETS[:3]:
        yield Rules((2, 1, 0), 2, budget)
        yield Rules((3,), 2, budget, drains=False)
    for budget in PERCENTAGES:
        yield Rules((3, 2, 0), budget=budget)


SLOW = (pytest.mark.slow, pytest.mark.timeout(600))
RULES = [
    *_rules(),
    *(
        pytest.param(each, marks=(*SLOW, pytest.mark.rare) if number % 3 else SLOW)
        for number, each in enumerate(_slow_rules())
    ),
]
"""Of the slow ones CI plays every third."""


@cache
def reachable(rules: Rules) -> Mapping[Group, int]:
    """Every group that can be reached, whatever is permitted, and how many ways lead on."""
    found: dict[Group, int] = {}
    queue = deque([Group.settled(rules.desired[0]), Group(rules.desired[0], ())])
    while queue:
        group = queue.popleft()
        if group in found:
            continue
        after = successors(group, rules)
        found[group] = len(after)
        queue += [each for each in after if each not in found]
    return found


def steps_to_the_end(starts: Iterable[T], successor: Callable[[T], T]) -> Mapping[T, int]:
    """How many steps each state is away from one that stays as it is.

    Raises:
        AssertionError: states follow each other in a circle.
    """
    left: dict[T, int] = {}
    for start in starts:
        if start in left:
            continue
        path: dict[T, None] = {}
        state = start
        while state not in left:
            assert state not in path, f"a circle: {state}"
            path[state] = None
            after = successor(state)
            if after == state:
                left[state] = 0
                path.popitem()
            state = after
        for each in reversed(path):
            left[each] = left[state] + 1
            state = each
    return left


def after_progress(
    group: Group, rules: Rules, permission: Permission, *, heals: bool = True
) -> Group:
    """The group after all its moves, and whatever makes progress by itself.

    Args:
        group: before.
        rules: of its world.
        permission: for the moves.
        heals: False if outdated members that are unready stay so.
    """
    moved = group.moved(moves_of(group, rules, permission), rules)
    sick = (SICK,) * (0 if heals else moved.members.count(SICK))
    if not sick:
        return moved.kind()
    well = Group(moved.desired, tuple(each for each in moved.members if each != SICK)).kind()
    return Group(well.desired, tuple(sorted(well.members + sick)))
