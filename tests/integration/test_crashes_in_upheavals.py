"""Crash at every write of a recreation and of a suspension: every pod is replaced exactly once."""

from __future__ import annotations

from typing import Any

import pytest

from controller.ray.api import RAYCLUSTERS
from tests.integration.forks import Forks
from tests.integration.harness import World, embedded_world, example_cluster
from tests.integration.test_crashes import SHARDS, all_but, at_each_kill, in_shards, kill_when, lag

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silence"),
]

WORKERS = 2


async def change(world: World, **spec: Any) -> None:
    await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", {"spec": spec})


async def is_suspended(world: World) -> bool:
    conditions = (await world.cluster()).status.get("conditions", [])
    return any(c["type"] == "RayClusterSuspended" and c["status"] == "True" for c in conditions)


async def recreate(world: World) -> None:
    await change(world, rayVersion="2.53.0")


async def suspend_and_resume(world: World) -> None:
    await change(world, suspend=True)
    await world.eventually(lambda: is_suspended(world), seconds=600, pause=0.5)
    assert not world.journal.present, "nothing is left when it is said"
    await change(world, suspend=False)


async def play(upheaval: Any, world: World) -> list[str]:
    """What was wrong in the end, in words."""
    before = set(world.journal.created)
    await upheaval(world)
    await world.eventually(lambda: before <= world.journal.marked, seconds=600)
    await world.eventually(lambda: len(world.journal.present) == WORKERS + 1, seconds=600)
    await world.settle(60)
    journal = world.journal
    after = set(journal.created) - before
    facts = {
        f"{len(after)} pods were made": len(after) == WORKERS + 1,
        f"{len(journal.present)} pods are there": len(journal.present) == WORKERS + 1,
        f"{len(journal.marked)} pods were deleted": journal.marked == before,
        f"{journal.most_live_heads} heads at a time": journal.most_live_heads == 1,
    }
    return [words for words, right in facts.items() if not right]


@pytest.mark.slow
@pytest.mark.parametrize("upheaval", [recreate, suspend_and_resume])
@at_each_kill
@in_shards
async def test_killed_at_any_single_write_every_pod_is_replaced_once(
    upheaval: Any, applied: bool, shard: int
):
    forks = Forks[list[str]](shard, SHARDS)
    async with embedded_world() as world:
        operator = world.start_operator(rules=[lag()])
        manifest = example_cluster(replicas=WORKERS)
        manifest["spec"]["upgradeStrategy"] = {"type": "Recreate"}
        await world.user.create(RAYCLUSTERS, world.namespace, manifest)
        await world.eventually(lambda: len(world.journal.ready_workers()) == WORKERS, seconds=120)
        await world.settle(30)
        kill_when(world, operator, forks.strikes, applied=applied)
        assert await forks.play(play(upheaval, world)) == []
    assert forks.places > 2 * WORKERS
    assert all_but([], forks) == {}
