"""A whole operator with a toy kind, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from controller.kube.content_types import MERGE_PATCH
from tests.runtime.flock import FLOCKS

if TYPE_CHECKING:
    from tests.runtime.flock import FlockWorld


async def test_a_flock_gets_its_birds_and_then_costs_nothing(flocks: FlockWorld):
    operator = flocks.start()
    await flocks.create(size=10)
    await flocks.counted(10)
    assert flocks.birds == 10

    await flocks.settle(60)
    writes, reads = flocks.requests("create", "patch", "delete"), flocks.requests("get", "list")
    await flocks.settle(600)
    assert flocks.requests("create", "patch", "delete") == writes
    assert flocks.requests("get", "list") == reads
    assert await operator.stop() == 0


async def test_resizing_makes_and_removes_just_the_difference(flocks: FlockWorld):
    flocks.start()
    await flocks.create(size=3)
    await flocks.counted(3)
    await flocks.resize(7)
    await flocks.counted(7)
    await flocks.resize(2)
    await flocks.counted(2)
    assert (len(flocks.created), len(flocks.deleted)) == (7, 5)


async def test_an_object_that_cannot_be_read_is_told_of_and_costs_only_itself(flocks: FlockWorld):
    registry = CollectorRegistry()
    flocks.start(registry=registry)
    await flocks.create("odd", size=1)
    await flocks.counted(1, "odd")
    path = FLOCKS.path("default", "odd")
    wrong = {"spec": {"size": "many"}}
    await flocks.user.request_json("PATCH", path, body=wrong, content_type=MERGE_PATCH)
    await flocks.create("good", size=2)
    await flocks.counted(2, "good")
    await flocks.settle(600)
    events = await flocks.user.request_json("GET", "/apis/events.k8s.io/v1/events")
    told = [e for e in events["items"] if e["reason"] == "Unreadable"]
    assert [e["regarding"]["name"] for e in told] == ["odd"]
    assert "`int`" in told[0]["note"], "it says what is wrong"
    assert told[0]["regarding"]["uid"]
    assert flocks.birds == 3, "the last good state is worked with"
    assert registry.get_sample_value("manta_events_sent_total") >= 4
    assert registry.get_sample_value("manta_events_dropped_total", {"cause": "spam"}) == 0
