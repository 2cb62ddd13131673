"""Evictions of the pods of a RayCluster, on whichever API server there is."""

from __future__ import annotations

import pytest

from tests.integration.harness import World
from tests.integration.test_disruption_budgets import HEAD, Budgets


@pytest.mark.vital
async def test_a_head_in_use_is_not_evicted_and_an_unused_one_is(world: World):
    seen = Budgets(world)
    seen.start_operator()
    await seen.create(disruptionBudgets={})
    seen.connect()
    await seen.have(HEAD)
    assert (await seen.budgets())[HEAD] == {
        "minAvailable": 1,
        "selector": {"matchLabels": {"ray.io/cluster": "example", "ray.io/node-type": "head"}},
    }
    assert await seen.evict("head") == 429
    assert await seen.evict("worker") == 201, "workers are not asked for"
    await world.eventually(world.is_ready)
    seen.disconnect()
    await seen.have()
    assert await seen.evict("head") == 201
    told = ("CreatedPodDisruptionBudget", "DeletedPodDisruptionBudget")
    events = [reason for reason, _ in await world.events_about("RayCluster", "example", *told)]
    assert [events.count(each) for each in told] == [1, 1]
