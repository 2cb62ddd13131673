"""The bug that Manta exists to make impossible: acting on a cache that lags behind."""

from __future__ import annotations

import pytest

from controller.testing.faults import Lag, Rule
from tests.integration.harness import World

LAG_SECONDS = 10.0


@pytest.mark.vital
@pytest.mark.timeout(240)
async def test_with_pod_events_ten_seconds_late_exactly_the_difference_is_made(world: World):
    world.start_operator(rules=[Rule(Lag(LAG_SECONDS), resource="pods")])
    await world.create_cluster(replicas=1)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 1, seconds=90)

    await world.scale(10)
    await world.eventually(lambda: len(world.journal.workers()) == 10, seconds=90)
    assert world.journal.workers_created() == 10

    await world.scale(3)
    await world.eventually(lambda: len(world.journal.workers()) == 3, seconds=90)
    # The caches catch up only now: whatever they still make the operator do would show here.
    await world.eventually(lambda: len(world.journal.present) == 4, seconds=90)
    await world.settle(2 * LAG_SECONDS + 5)

    assert world.journal.workers_created() == 10
    assert world.journal.workers_deleted() == 7
    assert world.journal.most_live_heads == 1
