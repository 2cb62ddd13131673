"""Visits every state that a rollout can reach, and checks the invariants I1 to I9 in each.

I1 bounds both capacities by 100 % plus the surge; I2 each weight by its cluster's capacity; I3 by
what of it is ready. I4: whatever has had a ready backend keeps one. I5: the config of an active
cluster that is being replaced does not change. I6: there is one pending cluster at most. I7: within
one direction capacities and weights go one way. I8: after the last edit there is an end. I9: what
is as it should be is not written. I10: a cluster that closes connections keeps its capacity.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache

import pytest
from msgspec.structs import replace

from controller.ray.api.rayservice import UpgradeType
from controller.ray.service.rollout import (
    FULL,
    Change,
    GoalCluster,
    Options,
    RolloutFacts,
    RolloutWait,
    SelectedCluster,
    SetActiveCapacity,
    SetPendingCapacity,
    SetPendingWeight,
    edited_cluster,
    next_step,
    safe_weight,
)
from tests.ray.service.rollout.world import (
    Rules,
    Sight,
    World,
    apply,
    calm_successor,
    facts_of,
    neighbours,
    writes,
)

NEW, STEPWISE, NONE = UpgradeType.NEW_CLUSTER, UpgradeType.INCREMENTAL, UpgradeType.NONE
QUICK = [Rules((NEW,)), Rules((NONE,)), Rules((STEPWISE,))]
RULES = [
    *QUICK,
    *(
        pytest.param(each, marks=[pytest.mark.slow, pytest.mark.timeout(600)])
        for each in (
            Rules((NEW, STEPWISE, NONE)),
            Rules((STEPWISE,), partly=True),
            Rules((STEPWISE,), Options(surge=50, step=50)),
            Rules((STEPWISE,), Options(surge=50, step=25), blind=False),
            Rules((STEPWISE,), Options(surge=20, step=20), blind=False),
        )
    ),
]


@cache
def reachable(rules: Rules) -> Mapping[World, int]:
    """Every reachable world, and how many ways lead on from there."""
    found: dict[World, int] = {}
    queue = deque([World(rules.strategies[0])])
    while queue:
        world = queue.popleft()
        if world not in found:
            after = [each for _, each in neighbours(world, rules)]
            found[world] = len(after)
            queue += [each for each in after if each not in found]
    return found


def is_backed(world: World, selected: SelectedCluster) -> bool:
    cluster = {SelectedCluster.ACTIVE: world.active, SelectedCluster.PENDING: world.pending}.get(
        selected
    )
    return cluster is not None and cluster.ready > 0


def carried(world: World) -> int:
    """Percent of the traffic that the route sends to a cluster with ready replicas."""
    active = is_backed(world, SelectedCluster.ACTIVE)
    pending = is_backed(world, SelectedCluster.PENDING)
    return (FULL - world.routed) * active + world.routed * pending


def check_closing(facts: RolloutFacts) -> None:
    """Whatever else holds, nothing is taken from a cluster whose proxies close connections."""
    for role, capacity in (
        ("active", facts.shares.active_capacity),
        ("pending", facts.shares.pending_capacity),
    ):
        closing = replace(getattr(facts, role), keeps_connections=True)
        step = next_step(replace(facts, **{role: closing}))
        taken = SetActiveCapacity if role == "active" else SetPendingCapacity
        assert not isinstance(step, taken) or step.percent > capacity, "I10"


def check_step(world: World, rules: Rules, sight: Sight) -> None:
    facts, shares = facts_of(world, rules, sight), world.shares
    check_closing(facts)
    step = next_step(facts)
    after = apply(world, step)
    if world.incremental and after.incremental:
        assert after.shares.active_capacity + after.shares.pending_capacity <= max(
            FULL + rules.options.surge, shares.active_capacity + shares.pending_capacity
        ), "I1"
    match step:
        case SetPendingWeight(percent):
            check_weight(percent, world, rules, facts)
        case SetActiveCapacity(percent):
            check_capacity(
                percent, shares.active_capacity, FULL - world.routed, grows=world.rolling_back
            )
        case SetPendingCapacity(percent):
            check_capacity(
                percent, shares.pending_capacity, world.routed, grows=not world.rolling_back
            )
        case Change.DROP_PENDING | Change.REPLACE_PENDING:
            assert not is_backed(world, SelectedCluster.PENDING) or (
                world.selection is not SelectedCluster.PENDING and world.routed == 0
            ), "I4: a cluster that is selected goes"
        case Change.PREPARE:
            assert world.pending is None, "I6"
        case Change.PROMOTE:
            assert world.selection is SelectedCluster.PENDING
            assert not world.incremental or world.routed == FULL
        case RolloutWait():
            being_replaced = world.active is not None and world.pending is not None
            assert not being_replaced or edited_cluster(facts) is not GoalCluster.ACTIVE, "I5"
        case _:
            pass


def check_capacity(percent: int, present: int, routed: int, *, grows: bool) -> None:
    assert percent != present
    assert (percent > present) is grows, "I7"
    assert grows or percent >= routed, "capacity is taken after traffic has left"


def check_weight(percent: int, world: World, rules: Rules, facts: RolloutFacts) -> None:
    shares, active, pending = world.shares, facts.active.ready, facts.pending.ready
    rescue = safe_weight(shares.pending_weight, active_ready=active, pending_ready=pending)
    if percent == rescue != shares.pending_weight:
        return
    least = shares.pending_weight if active is None else FULL - active
    most = shares.pending_weight if pending is None else pending
    assert least <= percent <= most, "I3"
    assert percent <= max(shares.pending_capacity, shares.pending_weight), "I2"
    assert FULL - percent <= max(shares.active_capacity, shares.active_weight), "I2"
    assert (percent > shares.pending_weight) is not world.rolling_back, "I7"
    assert abs(percent - shares.pending_weight) <= rules.options.step


def check_writes(world: World, rules: Rules, sight: Sight) -> None:
    for after in writes(world, rules, sight):
        if is_backed(world, world.selection):
            assert is_backed(after, after.selection), "I4: the services lose their endpoints"
        if carried(world) and isinstance(next_step(facts_of(world, rules)), RolloutWait):
            assert carried(after), "I4: the route leads nowhere"


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_every_reachable_state_keeps_the_invariants(
    rules: Rules, record_property: Callable[[str, object], None]
) -> None:
    worlds = reachable(rules)
    for world in worlds:
        for sight in rules.sights:
            check_step(world, rules, sight)
            check_writes(world, rules, sight)
    ways = sum(worlds.values())
    record_property("told", f"rollout: {len(worlds)} states, {ways} transitions: {rules}")


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_after_the_last_edit_every_rollout_ends_in_bounded_steps(  # I8
    rules: Rules, record_property: Callable[[str, object], None]
) -> None:
    once = 2 * math.ceil(FULL / rules.options.surge) + 2 * math.ceil(FULL / rules.options.step)
    steps = steps_to_the_end(rules)
    record_property("told", f"rollout: at most {max(steps.values())} steps: {rules}")
    assert max(steps.values()) <= 3 * once + 12
    for end in (world for world, left in steps.items() if left == 0):
        assert next_step(facts_of(end, rules)) is RolloutWait.NOTHING
        assert list(writes(end, rules)) == [], "I9"
        assert end.active is not None
        assert end.pending is None
        assert end.selection is SelectedCluster.ACTIVE
        assert end.strategy is NONE or end.active.spec == end.goal


def steps_to_the_end(rules: Rules) -> Mapping[World, int]:
    """How many steps each world is away from one where nothing is left to do.

    Raises:
        AssertionError: a rollout goes in a circle.
    """
    left: dict[World, int] = {}
    for start in reachable(rules):
        path: dict[World, None] = {}
        world = start
        while world not in left:
            assert world not in path, f"a circle: {world}"
            path[world] = None
            after = calm_successor(world, rules)
            if after == world:
                left[world] = 0
                path.popitem()
            world = after
        for each in reversed(path):
            left[each] = left[world] + 1
            world = each
    return left
