"""A cluster that is as it should be costs nothing."""

from __future__ import annotations

import pytest

from tests.integration.harness import OPERATOR, World

CLUSTERS = 100
TEN_MINUTES = 600.0


@pytest.mark.slow
@pytest.mark.embedded_only
@pytest.mark.timeout(180)
async def test_a_hundred_clusters_at_rest_cause_no_write_and_no_list(world: World):
    world.start_operator()
    for number in range(CLUSTERS):
        await world.create_cluster(f"c{number}", replicas=1)
    await world.eventually(lambda: len(world.journal.ready_workers()) == CLUSTERS, seconds=300)
    for number in range(CLUSTERS):
        await world.eventually(lambda n=number: world.is_ready(f"c{n}"), seconds=300)
    await world.settle(30)

    before = requests(world)
    await world.settle(TEN_MINUTES)
    after = requests(world)

    made = {key: count - before.get(key, 0) for key, count in after.items()}
    watches = {key: count for key, count in made.items() if key[0] == "watch"}
    others = {key: count for key, count in made.items() if key not in watches and count}
    assert others == {}
    assert sum(watches.values()) <= 3 * 10, "watches are renewed every five to ten minutes"


def requests(world: World) -> dict[tuple[str, str], int]:
    """Requests of the operator so far, by verb and resource."""
    assert world.server is not None
    return {
        (verb, resource): count
        for (agent, verb, resource), count in world.server.requests_by_user_agent.items()
        if agent.startswith(OPERATOR)
    }
