"""Visits every state that a rolling replacement can reach, and checks the promises in each.

R1: existing units stay within the desired number plus the surge, or become no more. R2: what is
drained leaves the desired number less the unavailable ones available. R3: neither does it leave
fewer units that are of use or may be again. R4: no up-to-date unit is drained, nor deleted unless
it was draining. R5: nothing present is touched while it must not be. R6: one unit is tried before
others are touched. R7: from each state there is an end.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest

from controller.ray.rolling import Budget, Permission, rolling_groups
from tests.ray.rolling.world import Group, Member, Rules, Stage, moves_of, successors, units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from controller.ray.rolling import Moves

BUDGETS = (Budget(0, 1), Budget(1, 0), Budget(1, 1), Budget(0, 2), Budget(2, 0))
T = TypeVar("T")
OF_USE = frozenset({Stage.AVAILABLE, Stage.UNREADY})
GOING = frozenset({Stage.DRAINING, Stage.DRAINED, Stage.BROKEN, Stage.DELETED})


def _rules() -> Iterator[Rules]:
    for budget in BUDGETS[:3]:
        yield Rules((2,), budget=budget)
        yield Rules((1,), budget=budget, unproven=True)
        yield Rules((1,), budget=budget, hosts=2)
    yield Rules((1, 0))
    yield Rules((2,), drains=False)


def _slow_rules() -> Iterator[Rules]:
    for budget, hosts in product(BUDGETS, (1, 2)):
        yield Rules((3,), hosts, budget)
        yield Rules((3,), hosts, budget, unproven=True)
    for budget in BUDGETS[:3]:
        yield Rules((2, 1, 0), 2, budget)
        yield Rules((3,), 2, budget, drains=False)


SLOW = (pytest.mark.slow, pytest.mark.timeout(600))
RULES = [*_rules(), *(pytest.param(each, marks=SLOW) for each in _slow_rules())]


@cache
def reachable(rules: Rules) -> Mapping[Group, int]:
    """Every group that can be reached, whatever is permitted, and how many ways lead on."""
    found: dict[Group, int] = {}
    queue = deque([Group.settled(rules.desired[0]), Group(rules.desired[0], ())])
    while queue:
        group = queue.popleft()
        if group in found:
            continue
        after = {each for permission in Permission for each in successors(group, rules, permission)}
        found[group] = len(after)
        queue += [each for each in after if each not in found]
    return found


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
    most = before.desired + rules.budget.surge
    assert len(after.members) <= max(len(before.members), most), "R1"
    least = before.desired - rules.budget.unavailable
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
    assert len(touched) <= max(0, old - group.desired + (not rules.budget.surge)), "R6"


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
    def successor(group: Group) -> Group:
        if heals:
            return calm(group, rules, Permission.ROLL)
        return _sick(group.moved(moves_of(group, rules, Permission.ROLL), rules))

    left = steps_to_the_end(reachable(rules), successor)
    for group in (group for group, steps in left.items() if not steps):
        assert group.members == (Member(True, Stage.AVAILABLE),) * group.desired
    record_property("told", f"rolling: at most {max(left.values())} steps: {rules}")
    assert max(left.values()) <= 6 * (max(rules.desired) + rules.budget.surge) + 6


def steps_to_the_end(starts: Iterable[T], successor: Callable[[T], T]) -> Mapping[T, int]:
    """How many steps each state is away from one that stays as it is.

    Raises:
        AssertionError: states follow each other in a circle.
    """
    left: dict[T, int] = {}
    for start in starts:
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


def _sick(group: Group) -> Group:
    """The group after some progress, but what is unready stays so if it is outdated."""
    sick = [each for each in group.members if each == Member(False, Stage.UNREADY)]
    well = group._replace(members=tuple(each for each in group.members if each not in sick)).kind()
    return well._replace(members=tuple(sorted((*well.members, *sick))))


@cache
def calm(group: Group, rules: Rules, permission: Permission) -> Group:
    """The group after all its moves, and whatever makes progress by itself."""
    return group.moved(moves_of(group, rules, permission), rules).kind()


class World(NamedTuple):
    """Two groups of one cluster."""

    groups: tuple[Group, Group]
    paused: bool = False

    def permissions(self, rules: Rules, at_a_time: int) -> tuple[Permission, ...]:
        """How far each group may go."""
        found = [units_of(each, rules, str(i)) for i, each in enumerate(self.groups)]
        turns = frozenset[str]() if self.paused else rolling_groups(found, at_a_time)
        return tuple(Permission.ROLL if each.name in turns else Permission.HOLD for each in found)

    def after(self, rules: Rules, at_a_time: int) -> Iterator[World]:
        """The worlds that one event leads to."""
        yield self._replace(paused=not self.paused)
        for index, permission in enumerate(self.permissions(rules, at_a_time)):
            for each in successors(self.groups[index], rules, permission):
                yield self._with(index, each)

    def kind(self, rules: Rules, at_a_time: int) -> World:
        """The world after all moves, when it is not paused."""
        world = self._replace(paused=False)
        for index, permission in enumerate(world.permissions(rules, at_a_time)):
            world = world._with(index, calm(self.groups[index], rules, permission))
        return world

    def _with(self, index: int, group: Group) -> World:
        first, second = self.groups
        return self._replace(groups=(group, second) if index == 0 else (first, group))


TWO = [
    (Rules((1,), budget=Budget(1, 0)), 1),
    *(
        pytest.param(Rules((desired,), hosts, budget), at_a_time, marks=SLOW)
        for desired, hosts, budget, at_a_time in (
            (1, 1, Budget(0, 1), 1),
            (1, 2, Budget(1, 0), 1),
            (1, 1, Budget(0, 1), 2),
            (2, 1, Budget(0, 1), 1),
            (2, 1, Budget(1, 0), 1),
        )
    ),
]


@pytest.mark.parametrize(("rules", "at_a_time"), TWO, ids=str)
def test_two_groups_take_turns_and_both_end(
    rules: Rules, at_a_time: int, record_property: Callable[[str, object], None]
) -> None:
    settled = Group.settled(rules.desired[0])
    start = World((settled, settled))
    found = {start}
    queue = deque([start])
    while queue:
        world = queue.popleft()
        permissions = world.permissions(rules, at_a_time)
        assert permissions.count(Permission.ROLL) <= at_a_time
        assert not world.paused or Permission.ROLL not in permissions
        for each in world.after(rules, at_a_time):
            if each not in found:
                found.add(each)
                queue.append(each)
    left = steps_to_the_end(found, lambda world: world.kind(rules, at_a_time))
    for world in (world for world, steps in left.items() if not steps):
        assert all(units_of(each, rules).is_done for each in world.groups)
        assert all(each.serving == each.desired for each in world.groups)
    record_property(
        "told",
        f"rolling: two groups, {len(found)} states, at most {max(left.values())} steps: {rules}",
    )
