"""Rolling updates on whichever API server there is; their other tests look into the server."""

from __future__ import annotations

import pytest

from tests.integration.harness import World
from tests.integration.rolling import RollingWorld, rolling_manifest

pytestmark = pytest.mark.slow


@pytest.mark.vital
async def test_workers_and_head_are_replaced_once_though_the_operator_is_killed(world: World):
    rolling = RollingWorld(world, rolling_manifest(2, 1, fault_tolerant=True), refereed=False)
    operator = rolling.start_operator()
    await rolling.create()
    before = set(world.journal.present)
    await rolling.edit("new", head=True)
    await world.eventually(lambda: len(before & world.journal.marked) == 1, seconds=120)
    await operator.kill()
    rolling.start_operator()
    await rolling.completes(120)
    await world.eventually(world.is_ready, seconds=60)
    assert not before & world.journal.present.keys()
    assert len(rolling.workers()) == 3
    assert world.journal.workers_created() == 6
    assert world.journal.most_live_heads == 1
    assert "upgrade" not in (await world.cluster()).status
    assert (await rolling.events("UpgradeComplete")).count("UpgradeComplete") == 1


@pytest.mark.vital
async def test_replicas_of_several_hosts_are_replaced_whole_after_a_pause(world: World):
    manifest = rolling_manifest(1, hosts=2, maxSurge=0, maxUnavailable="100%", paused=True)
    rolling = RollingWorld(world, manifest, refereed=False)
    rolling.start_operator()
    await rolling.create()
    before = set(world.journal.present)
    await rolling.edit("new")
    await world.becomes(
        rolling.condition, lambda found: found.get("reason") == "Paused", seconds=60
    )
    assert set(world.journal.present) == before
    await rolling.settings(paused=False)
    await rolling.completes(120)
    assert len(rolling.workers()) == 2
    assert world.journal.workers_created() == 4
