"""Whatever is late, lost or repeated: as many claims as nodes are needed, and none deleted."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from controller.devcluster.karpenter import ClaimBehaviour
from controller.kaito.api.karpenter import NODE_CLAIMS
from controller.kaito.api.workspace import WORKSPACES
from controller.testing.faults import (
    Cut,
    DelayedResponse,
    ErrorResponse,
    Gone,
    Lag,
    LostRequest,
    LostResponse,
    Refused,
    Rule,
)
from tests.integration.harness import embedded_world
from tests.integration.workspaces import Cloud, opened

pytestmark = [
    pytest.mark.slow,
    pytest.mark.embedded_only,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silence"),
]

WRITES = frozenset({"create", "patch", "update", "delete"})
FAULTS = (
    LostRequest(),
    LostResponse(),
    Refused(),
    ErrorResponse(500, "InternalError"),
    DelayedResponse(3.0),
)


def now_and_then(chance: random.Random, share: float) -> Callable[[str], bool]:
    return lambda _name: chance.random() < share


def rules(chance: random.Random) -> list[Rule]:
    """Faults of the requests and watches about Workspaces and claims."""
    found = [
        Rule(fault, str(resource), WRITES, now_and_then(chance, 0.1))
        for resource in (WORKSPACES, NODE_CLAIMS)
        for fault in FAULTS
    ]
    for resource in (WORKSPACES, NODE_CLAIMS):
        found.append(Rule(Lag(chance.uniform(0, 10)), str(resource)))
        found.append(Rule(chance.choice([Cut(), Gone()]), str(resource), skip=3, times=2))
    return found


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_is_late_lost_or_repeated_there_are_exactly_as_many_claims(seed: int):
    chance = random.Random(seed)
    count = chance.choice([1, 3, 4])
    slow = [
        ClaimBehaviour(node_after=chance.uniform(1, 60), plugin_after=chance.uniform(1, 20))
        for _ in range(count)
    ]
    cloud = Cloud(of=lambda _workspace, number: slow[number] if number < count else None)
    async with embedded_world(seed=seed) as world, opened(world, cloud) as spaces:
        operator = spaces.start_operator(rules=rules(chance))
        await spaces.create(count=count)
        for _ in range(chance.randrange(5)):
            await world.settle(chance.uniform(0, 30))
            await operator.kill()
            operator = spaces.start_operator(rules=rules(chance))
        await world.settle(60)
        operator.transport.rules.clear()
        await spaces.has_nodes(seconds=900)
        await world.settle(120)
        referee = spaces.referee
        assert (referee.created["phi"], referee.deleted["phi"], referee.most["phi"]) == (
            count,
            0,
            count,
        )
