"""A write that fails for ever, whatever its verb: it is named, costs little, and recovers.

Creates are in `test_failing_keys`; plans of each kind name its own writes, and `tests/neighbours`
has the refusals that a tenant can meet, for every kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from msgspec import Struct

from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import DelayedRequest, ErrorResponse, Rule
from tests.integration.harness import RunningOperator, World
from tests.integration.test_failing_keys import MOST, SORTS, TEN_MINUTES, TRACE, requests

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]

WORDS = {
    "forbidden": "not by policy",
    "invalid": "Invalid value",
    "failing": "etcd said no",
    "overloaded": "try again",
    "timeout": "request timed out",
    "lost": "connection reset",
    "silent": "no complete answer",
    "busy": "later",
    "conflict": "",  # a conflict is quiet
}
FAULTS = SORTS | {
    "timeout": ErrorResponse(504, "Timeout", f"request timed out, {TRACE}"),
    "silent": DelayedRequest(1e6),
    "busy": ErrorResponse(429, "TooManyRequests", f"later, {TRACE}", retry_after=1),
    "conflict": ErrorResponse(409, "Conflict", f"the object has been modified, {TRACE}"),
}
CLUSTERS = str(RAYCLUSTERS)
CREATE, PATCH, DELETE = frozenset({"create"}), frozenset({"patch", "update"}), frozenset({"delete"})


async def a_cluster(world: World) -> RunningOperator:
    operator = world.start_operator()
    await world.create_cluster("it")
    await world.eventually(lambda: world.is_ready("it"), seconds=60)
    return operator


async def aim_elsewhere(world: World) -> None:
    """As a user does who edits a Service by hand."""
    patch = {"spec": {"selector": {"ray.io/cluster": "elsewhere"}}}
    await world.user.merge_patch(SERVICES, world.namespace, "it-head-svc", patch)


async def shrink(world: World) -> None:
    await world.scale(0, "it")


class Row(Struct, frozen=True):
    """A write that fails.

    Attributes:
        provoke: makes the write due.
        told_by: what names the failure; events if the object's own status cannot be written.
    """

    provoke: Callable[[World], Awaitable[None]]
    resource: str
    verbs: frozenset[str]
    told_by: str = "conditions"


ROWS = {
    "the Service of a cluster": Row(aim_elsewhere, "services", PATCH),
    "the pods of a cluster": Row(shrink, "pods", DELETE),
    "a cluster": Row(shrink, CLUSTERS, PATCH, told_by="events"),
}


async def said(world: World, row: Row) -> str:
    """What the conditions or the events say."""
    if row.told_by == "events":
        return " ".join(note for _, note in await world.events_about("RayCluster", "it"))
    obj = await world.user.get(RAYCLUSTERS, world.namespace, "it")
    return " ".join(each["message"] for each in obj.status["conditions"])


@pytest.mark.parametrize("what", ROWS)
@pytest.mark.parametrize("sort", WORDS)
async def test_a_write_that_fails_for_ever_is_named_costs_little_and_is_made_once_it_can_be(
    world: World, what: str, sort: str
):
    row, words = ROWS[what], WORDS[sort]
    operator = await a_cluster(world)
    rule = Rule(FAULTS[sort], row.resource, row.verbs, name=lambda n: n.startswith("it"))
    operator.transport.rules = [rule]
    await row.provoke(world)
    await world.settle(15 if sort == "silent" else 30)
    assert words in await said(world, row)
    since = len(operator.transport.journal.entries)
    await world.settle(TEN_MINUTES)
    assert len(requests(operator, since)) <= MOST
    assert rule.seen > 5
    assert words in await said(world, row)

    since = len(operator.transport.journal.entries)
    operator.transport.rules = []
    await world.settle(180 if sort == "silent" else 60)
    outcomes = [
        entry.outcome
        for entry in operator.transport.journal.entries[since:]
        if entry.attributes.verb in row.verbs and entry.attributes.resource == row.resource
    ]
    assert {"200", "201"} & set(outcomes)
    assert not words or row.told_by == "events" or words not in await said(world, row)


@pytest.mark.parametrize(("times", "named"), [(1, False), (2, True)])
async def test_a_server_that_is_busy_for_a_moment_is_no_news_and_one_that_stays_so_is(
    world: World, times: int, *, named: bool
):
    operator = await a_cluster(world)
    rule = Rule(FAULTS["busy"], "services", PATCH, times=times)
    operator.transport.rules = [rule]
    texts: list[str] = []
    await aim_elsewhere(world)
    for _ in range(50):
        await world.settle(0.1)
        texts.append(await said(world, ROWS["the Service of a cluster"]))
    await world.settle(10)
    assert rule.seen == times + 1, "the repetition is made by the one rule of waiting"
    assert any(WORDS["busy"] in text for text in texts) is named
    assert WORDS["busy"] not in await said(world, ROWS["the Service of a cluster"])
