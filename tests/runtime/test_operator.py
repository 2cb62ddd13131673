"""A whole operator with a toy kind, in virtual time."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from controller.kube.transport import MERGE_PATCH
from tests.runtime.widgets import WIDGETS, WidgetWorld


async def test_a_widget_gets_its_children_and_then_costs_nothing(widgets: WidgetWorld):
    operator = widgets.start()
    await widgets.create(size=10)
    await widgets.counted(10)
    assert widgets.children == 10

    await widgets.settle(60)
    writes, reads = widgets.requests("create", "patch", "delete"), widgets.requests("get", "list")
    await widgets.settle(600)
    assert widgets.requests("create", "patch", "delete") == writes
    assert widgets.requests("get", "list") == reads
    assert await operator.stop() == 0


async def test_resizing_makes_and_removes_just_the_difference(widgets: WidgetWorld):
    widgets.start()
    await widgets.create(size=3)
    await widgets.counted(3)
    await widgets.resize(7)
    await widgets.counted(7)
    await widgets.resize(2)
    await widgets.counted(2)
    assert (len(widgets.created), len(widgets.deleted)) == (7, 5)


async def test_an_object_that_cannot_be_read_is_told_of_and_costs_only_itself(widgets: WidgetWorld):
    registry = CollectorRegistry()
    widgets.start(registry=registry)
    await widgets.create("odd", size=1)
    await widgets.counted(1, "odd")
    path = WIDGETS.path("default", "odd")
    wrong = {"spec": {"size": "many"}}
    await widgets.user.request_json("PATCH", path, body=wrong, content_type=MERGE_PATCH)
    await widgets.create("good", size=2)
    await widgets.counted(2, "good")
    await widgets.settle(600)
    events = await widgets.user.request_json("GET", "/apis/events.k8s.io/v1/events")
    told = [e for e in events["items"] if e["reason"] == "Unreadable"]
    assert [e["regarding"]["name"] for e in told] == ["odd"]
    assert "`int`" in told[0]["note"], "it says what is wrong"
    assert told[0]["regarding"]["uid"]
    assert widgets.children == 3, "the last good state is worked with"
    assert registry.get_sample_value("manta_events_sent_total") >= 4
    assert registry.get_sample_value("manta_events_dropped_total", {"cause": "spam"}) == 0
