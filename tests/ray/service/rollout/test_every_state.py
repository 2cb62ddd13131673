"""Visits every state that a rollout can reach, and checks the invariants I1 to I9 in each."""

from __future__ import annotations

import math
import sys
from collections import deque

import pytest

from controller.ray.service.rollout.facts import Options, Selection, Strategy
from controller.ray.service.rollout.shares import FULL, safe_weight
from controller.ray.service.rollout.steps import (
    Change,
    SetActiveCapacity,
    SetPendingCapacity,
    SetPendingWeight,
    Wait,
)
from controller.ray.service.rollout.transitions import next_step
from tests.ray.service.rollout.world import (
    Rules,
    World,
    apply,
    calm_end,
    facts_of,
    neighbours,
)

RULES = [
    Rules(Strategy.NEW_CLUSTER),
    Rules(Strategy.NONE),
    Rules(Strategy.INCREMENTAL, Options(surge=100, step=100), partly=True),
    Rules(Strategy.INCREMENTAL, Options(surge=50, step=50), partly=True),
    Rules(Strategy.INCREMENTAL, Options(surge=50, step=25)),
    Rules(Strategy.INCREMENTAL, Options(surge=20, step=20)),
]


def reachable(rules: Rules) -> set[World]:
    seen, queue = {World()}, deque([World()])
    while queue:
        for _, world in neighbours(queue.popleft(), rules):
            if world not in seen:
                seen.add(world)
                queue.append(world)
    return seen


def is_backed(world: World, selected: Selection) -> bool:
    cluster = {Selection.ACTIVE: world.active, Selection.PENDING: world.pending}.get(selected)
    return cluster is not None and cluster.ready > 0


def carried(world: World) -> int:
    """Percent of the traffic that the route sends to a cluster with ready replicas."""
    active = world.active is not None and world.active.ready > 0
    pending = world.pending is not None and world.pending.ready > 0
    return (FULL - world.routed) * active + world.routed * pending


def check_step(world: World, rules: Rules) -> None:
    facts, shares = facts_of(world, rules), world.shares
    step = next_step(facts)
    after = apply(world, step, rules)
    if world.incremental and after.incremental:
        assert after.shares.active_capacity + after.shares.pending_capacity <= max(
            FULL + rules.options.surge, shares.active_capacity + shares.pending_capacity
        ), "I1"
    match step:
        case SetPendingWeight(percent):
            assert facts.active.ready is not None
            assert facts.pending.ready is not None
            least, most = FULL - facts.active.ready, facts.pending.ready
            rescue = percent == safe_weight(
                shares.pending_weight, active_ready=facts.active.ready, pending_ready=most
            )
            if not rescue:
                assert least <= percent <= most, "I3"
                assert percent <= shares.pending_capacity, "I2"
                assert FULL - percent <= shares.active_capacity, "I2"
                assert (percent > shares.pending_weight) is not world.rolling_back, "I7"
                assert abs(percent - shares.pending_weight) <= rules.options.step
        case SetActiveCapacity(percent):
            assert (percent > shares.active_capacity) is world.rolling_back, "I7"
            if percent < shares.active_capacity:
                assert percent >= FULL - world.routed, "capacity is taken after traffic has left"
        case SetPendingCapacity(percent):
            assert (percent < shares.pending_capacity) is world.rolling_back, "I7"
            if percent < shares.pending_capacity:
                assert percent >= world.routed, "capacity is taken after traffic has left"
        case Change.DROP_PENDING | Change.REPLACE_PENDING:
            assert not is_backed(world, Selection.PENDING) or (
                world.selection is not Selection.PENDING and world.routed == 0
            ), "I4: a cluster that is selected goes"
        case Change.PROMOTE:
            assert world.selection is Selection.PENDING
            assert not world.incremental or world.routed == FULL
        case _:
            pass


def check_write(before: World, after: World) -> None:
    if before.selection is not after.selection and is_backed(before, before.selection):
        assert is_backed(after, after.selection), "I4: the services lose their endpoints"


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_every_reachable_state_keeps_the_invariants(rules: Rules) -> None:
    worlds = reachable(rules)
    edges = 0
    for world in worlds:
        check_step(world, rules)
        for sort, after in neighbours(world, rules):
            edges += 1
            if sort == "write":
                check_write(world, after)
    sys.stdout.write(f"{len(worlds)} states, {edges} transitions: {rules}\n")


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_after_the_last_edit_every_rollout_ends_in_bounded_steps(rules: Rules) -> None:  # I8
    once = 2 * math.ceil(FULL / rules.options.surge) + 2 * math.ceil(FULL / rules.options.step)
    longest = 0
    for world in reachable(rules):
        end, steps = calm_end(world, rules, limit=3 * once + 12)
        longest = max(longest, steps)
        assert next_step(facts_of(end, rules)) is Wait.NOTHING
        assert end.active is not None
        assert end.pending is None
        assert end.selection is Selection.ACTIVE
        assert rules.strategy is Strategy.NONE or end.active.spec == end.goal
    sys.stdout.write(f"at most {longest} steps: {rules}\n")
