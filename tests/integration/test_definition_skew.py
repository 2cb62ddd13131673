"""Definitions of another version than the operator's: what they drop must hurt nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.faulty_transport import watch_lag
from tests.integration.definitions import drop_fields
from tests.integration.harness import OPERATOR

if TYPE_CHECKING:
    from tests.integration.harness import World


STATUS = "rayclusters.ray.io/status"


@pytest.mark.embedded_only
@pytest.mark.parametrize("field", ["status.conditions", "status.desiredCPU"])
async def test_a_status_field_that_is_pruned_and_a_late_watch_cause_no_loop(
    world: World, field: str
):
    await drop_fields(world, field)
    world.start_operator(rules=[watch_lag("rayclusters.ray.io", 3.0)])
    await world.create_cluster()
    await world.eventually(world.is_ready)
    before = status_writes(world)
    await world.settle(300)
    assert status_writes(world) - before <= 2


def status_writes(world: World) -> int:
    """Status writes of the operator so far."""
    assert world.server is not None
    return sum(
        count
        for (agent, verb, resource), count in world.server.requests_by_user_agent.items()
        if agent.startswith(OPERATOR) and (verb, resource) == ("patch", STATUS)
    )
