"""WATCH: replay, selection, initial events, bookmarks and the ways a stream ends."""

from __future__ import annotations

import asyncio

import pytest

from tests.devcluster.apiserver.support import config_map, pod, types_and_names


async def changes(api) -> str:
    """Make a, change it, make b, delete it; gives the revision before all that."""
    start = (await api.get(api.path("configmaps"))).revision
    await api.create(api.path("configmaps"), config_map("a"))
    await api.patch(api.path("configmaps", "a"), {"data": {"x": "1"}})
    await api.create(api.path("configmaps"), config_map("b"))
    await api.delete(api.path("configmaps", "b"))
    return start


NOT_THE_ROOT_CA = "metadata.name!=kube-root-ca.crt,metadata.name!=openshift-service-ca.crt"
"""A real cluster puts these into every namespace, some time after its creation."""


async def test_a_watch_replays_everything_since_its_revision(api):
    start = await changes(api)
    events = await api.watch(
        api.path("configmaps"), 4, resourceVersion=start, fieldSelector=NOT_THE_ROOT_CA
    )
    assert types_and_names(events) == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("ADDED", "b"),
        ("DELETED", "b"),
    ]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert revisions == sorted(set(revisions))
    assert events[0]["object"]["kind"] == "ConfigMap"


async def test_a_deletion_has_a_revision_of_its_own(api):
    created = await api.create(api.path("configmaps"), config_map("a"))
    await api.delete(api.path("configmaps", "a"))
    (event,) = await api.watch(
        api.path("configmaps"), 1, resourceVersion=created.revision, fieldSelector="metadata.name=a"
    )
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(created.revision)


async def test_a_watch_without_revision_begins_with_what_exists(api):
    await api.create(api.path("pods"), pod("a"))
    for revision in ("", "0"):
        (event,) = await api.watch(api.path("pods"), 1, resourceVersion=revision)
        assert types_and_names([event]) == [("ADDED", "a")]


async def test_leaving_a_selection_is_a_deletion_and_entering_it_an_addition(api):
    created = await api.create(api.path("pods"), pod("a", labels={"x": "in"}))
    start = str(int(created.revision) - 1)
    for value in ("out", "in", "in"):
        await api.patch(api.path("pods", "a"), {"metadata": {"labels": {"x": value, "n": value}}})
    await api.patch(api.path("pods", "a"), {"metadata": {"labels": {"n": "last"}}})
    events = await api.watch(api.path("pods"), 4, resourceVersion=start, labelSelector="x=in")
    assert [event["type"] for event in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED"]
    left = events[1]["object"]["metadata"]
    assert left["labels"]["x"] == "in"
    assert int(left["resourceVersion"]) > int(events[0]["object"]["metadata"]["resourceVersion"])


async def test_initial_events_end_with_a_marked_bookmark(api):
    await api.create(api.path("pods"), pod("a"))
    events = await api.watch(
        api.path("pods"),
        2,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    bookmark = events[1]["object"]
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    revision = int(bookmark["metadata"]["resourceVersion"])
    assert revision >= int(events[0]["object"]["metadata"]["resourceVersion"])
    assert (bookmark["kind"], bookmark["spec"]) == ("Pod", {"containers": None})


async def test_initial_events_may_be_declined(api):
    await api.create(api.path("pods"), pod("a"))
    start = (await api.get(api.path("pods"))).revision
    watching = asyncio.create_task(
        api.watch(
            api.path("pods"),
            1,
            sendInitialEvents="false",
            resourceVersionMatch="NotOlderThan",
            resourceVersion=start,
        )
    )
    await asyncio.sleep(0.1)
    await api.create(api.path("pods"), pod("b"))
    assert types_and_names(await watching) == [("ADDED", "b")]


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersionMatch": "NotOlderThan"},
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
    ],
)
async def test_parameters_that_contradict_each_other_are_invalid(api, query):
    answer = await api.get(api.path("pods"), watch="1", timeoutSeconds="1", **query)
    assert answer.status == 422
    assert ("FieldValueForbidden", "resourceVersionMatch") in answer.causes


async def test_a_revision_that_is_no_number_is_an_error(api):
    answer = await api.get(api.path("pods"), watch="1", resourceVersion="x")
    assert answer.status == 500
    assert 'strconv.ParseUint: parsing "x": invalid syntax' in answer.message


async def test_initial_events_from_the_future_are_a_timeout_event(api):
    (event,) = await api.watch(
        api.path("pods"),
        1,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        resourceVersion="999999999",
    )
    assert (event["type"], event["object"]["code"]) == ("ERROR", 504)
    assert event["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_a_watch_ends_after_its_timeout(api):
    before = asyncio.get_running_loop().time()
    assert [event async for event in api.stream(api.path("pods"), timeoutSeconds="1")] == []
    assert 0.9 < asyncio.get_running_loop().time() - before < 3


async def test_bookmarks_come_each_minute_and_shortly_before_the_end(embedded):
    started = embedded.loop.time()
    seen = [
        (event["type"], embedded.loop.time() - started)
        async for event in embedded.stream(
            embedded.path("pods"), allowWatchBookmarks="true", timeoutSeconds="150"
        )
    ]
    assert seen == [("BOOKMARK", 60), ("BOOKMARK", 120), ("BOOKMARK", 148)]
    assert embedded.loop.time() - started == 150


async def test_a_bookmark_carries_the_revision_of_the_whole_store(embedded):
    start = (await embedded.get(embedded.path("pods"))).revision
    other = await embedded.create(embedded.path("configmaps"), config_map("a"))
    (event,) = await embedded.watch(
        embedded.path("pods"),
        1,
        resourceVersion=start,
        allowWatchBookmarks="true",
        timeoutSeconds="100",
    )
    assert event["object"]["metadata"]["resourceVersion"] == other.revision


async def test_a_compacted_revision_is_expired(embedded):
    start = await changes(embedded)
    embedded.server.compact()
    (event,) = await embedded.watch(embedded.path("configmaps"), 1, resourceVersion=start)
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["code"], status["reason"], status["kind"]) == (410, "Expired", "Status")
    assert status["message"].startswith(f"too old resource version: {start} (")


async def test_a_reader_that_falls_behind_the_log_is_told_so(embedded):
    embedded.server.store.table("configmaps")._history = 3
    stream = embedded.stream(embedded.path("configmaps"), timeoutSeconds="100")
    await embedded.create(embedded.path("configmaps"), config_map("a"))
    assert (await anext(stream))["type"] == "ADDED"
    for value in range(5):
        await embedded.patch(embedded.path("configmaps", "a"), {"data": {"x": str(value)}})
    event = await anext(stream)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert [event async for event in stream] == []


async def test_a_watch_of_one_namespace_shows_no_other(api):
    start = (await api.get(api.path("pods"))).revision
    elsewhere = f"{api.namespace}-2"
    await api.create("/api/v1/namespaces", {"metadata": {"name": elsewhere}})
    await api.create(f"/api/v1/namespaces/{elsewhere}/pods", pod("other"))
    await api.create(api.path("pods"), pod("a"))
    events = await api.watch(api.path("pods"), 1, resourceVersion=start)
    assert types_and_names(events) == [("ADDED", "a")]
    everywhere = []
    async for event in api.stream("/api/v1/pods", resourceVersion=start):
        if event["object"]["metadata"]["namespace"].startswith(api.namespace):
            everywhere.append(event)
        if len(everywhere) == 2:
            break
    assert types_and_names(everywhere) == [("ADDED", "other"), ("ADDED", "a")]
    await api.delete(f"/api/v1/namespaces/{elsewhere}")


async def test_compaction_reaches_resources_that_have_not_changed(embedded):
    start = (await embedded.get(embedded.path("pods"))).revision
    await embedded.create(embedded.path("configmaps"), config_map("a"))
    embedded.server.compact()
    (event,) = await embedded.watch(embedded.path("pods"), 1, resourceVersion=start)
    assert event["object"]["code"] == 410


async def test_a_watch_from_a_revision_of_the_future_is_silent_until_then(embedded):
    """As a real one is after its database was restored."""
    path = embedded.path("configmaps")
    future = embedded.server.store.revision + 2
    for name in "abc":
        await embedded.create(path, config_map(name))
    events = await embedded.watch(path, 1, resourceVersion=str(future))
    assert types_and_names(events) == [("ADDED", "c")]

    ahead = str(embedded.server.store.revision + 2)
    following = asyncio.create_task(embedded.watch(path, 1, resourceVersion=ahead))
    await asyncio.sleep(0)
    for name in "def":
        await embedded.create(path, config_map(name))
    assert types_and_names(await following) == [("ADDED", "f")]
