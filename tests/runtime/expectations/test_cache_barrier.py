"""No write before the caches are as new as the moment at which they are confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from controller.kube.objects import ConfigMap, ObjectList
from controller.kube.resources import CONFIG_MAPS
from controller.kube.transport import RawResponse, Request, Transport
from controller.runtime.cache import CacheBarrier, CacheScope
from controller.runtime.election import Election
from controller.testing.faults import ErrorResponse, Rule
from informers import Store, Undecodable
from tests.runtime.fences import FirstCandidate
from tests.runtime.kit import child
from tests.runtime.widgets import WidgetWorld, widget_world


@pytest.fixture
async def widgets() -> AsyncIterator[WidgetWorld]:
    async with widget_world() as world:
        yield world


class Cache:
    """A store that a test moves, in the place of an informer."""

    def __init__(self, *objects: ConfigMap, revision: int) -> None:
        self.store: Store[ConfigMap] = Store()
        self.store.replace(objects, str(revision))
        self.lister = self.store
        self.callbacks: list[Callable[[list[object], str], None]] = []
        self.quarantined: dict[str, Undecodable] = {}
        self.quorum_read: float | None = None

    @property
    def resource_version(self) -> str:
        return self.store.resource_version

    def on_change(self, callback: Callable[[list[object], str], None]) -> None:
        self.callbacks.append(callback)

    def advance(self, revision: str) -> None:
        self.store.advance(revision)

    def move(self, *objects: ConfigMap, revision: int) -> None:
        self.store.replace(objects, str(revision))
        for callback in self.callbacks:
            callback([], str(revision))


class Server:
    """Lists at quorum what it was made with, two objects a page unless told otherwise."""

    def __init__(self, *objects: ConfigMap, revision: int, page: int = 2) -> None:
        self.objects = list(objects)
        self.revision = revision
        self.page = page
        self.limits: list[int] = []
        self.lists: list[tuple[object, ...]] = []

    async def list_metadata(
        self,
        resource: object,
        namespace: str,
        *,
        label_selector: str,
        limit: int,
        continue_: str,
    ):
        self.limits.append(limit)
        self.lists.append((resource, namespace, label_selector, limit, continue_))
        start = int(continue_ or 0)
        page = self.objects[start : start + min(limit, self.page)]
        end = start + len(page)
        following = str(end) if end < len(self.objects) else ""
        return ObjectList(page, str(self.revision), following)


@asynccontextmanager
async def confirming(
    server: Server, cache: Cache, since: float = 0.0
) -> AsyncIterator[asyncio.Task[None]]:
    confirmation = CacheBarrier(server, CacheScope(CONFIG_MAPS), cache)  # type: ignore[arg-type]
    task = asyncio.create_task(confirmation.wait(since))
    yield task
    task.cancel()
    await asyncio.wait([task])


async def test_a_store_at_the_revision_is_confirmed_by_one_cheap_list():
    server, cache = Server(revision=10), Cache(revision=10)
    async with confirming(server, cache) as task:
        await asyncio.wait_for(task, 0.1)
    assert server.limits == [500]


async def test_a_quiet_store_is_confirmed_by_its_contents_without_a_bookmark():
    objects = [child(f"a{n}", n + 1) for n in range(5)]
    server, cache = Server(*objects, revision=100), Cache(*objects, revision=8)
    async with confirming(server, cache) as task:
        await asyncio.wait_for(task, 2.0)
    assert server.limits == [500, 500, 500, 500], "paged"


async def test_a_quiet_store_advances_to_the_revision_at_which_it_was_found_complete():
    objects = [child(f"a{n}", n + 1) for n in range(5)]
    server, cache = Server(*objects, revision=100), Cache(*objects, revision=8)
    async with confirming(server, cache) as task:
        await asyncio.wait_for(task, 2.0)
    assert cache.resource_version == "100"


@pytest.mark.parametrize(
    "stale",
    [
        [child("a", 1)],
        [child("a", 1), child("b", 2), child("gone", 3)],
        [child("a", 1), child("b", 1)],
    ],
    ids=["one missing", "one too many", "one too old"],
)
async def test_contents_that_differ_are_not_confirmed(stale: list[ConfigMap]):
    truth = [child("a", 1), child("b", 2)]
    server, cache = Server(*truth, revision=100), Cache(*stale, revision=8)
    async with confirming(server, cache) as task:
        await asyncio.sleep(60)
        assert not task.done()
        cache.move(*truth, revision=9)
        await asyncio.wait_for(task, 0.1)


async def test_what_the_cache_cannot_read_is_not_waited_for():
    server, cache = (
        Server(child("a", 9), child("b", 2), revision=100),
        Cache(child("b", 2), revision=8),
    )
    cache.quarantined["default/a"] = Undecodable("default/a", "", "9", "not a widget")
    async with confirming(server, cache) as task:
        await asyncio.wait_for(task, 2.0)


async def test_what_the_cache_cannot_read_hides_nothing_else_that_is_missing():
    truth = [child("a", 9), child("b", 2)]
    server, cache = Server(*truth, revision=100), Cache(revision=8)
    cache.quarantined["default/a"] = Undecodable("default/a", "", "9", "not a widget")
    async with confirming(server, cache) as task:
        await asyncio.sleep(60)
        assert not task.done()


@pytest.mark.parametrize("odd", ["default/a", "default/gone"])
async def test_what_the_cache_could_not_read_and_was_changed_since_is_waited_for(odd: str):
    server, cache = (
        Server(child("a", 9), child("b", 2), revision=100),
        Cache(child("b", 2), revision=8),
    )
    cache.quarantined[odd] = Undecodable(odd, "", "7", "not a widget")
    async with confirming(server, cache) as task:
        await asyncio.sleep(60)
        assert not task.done()


async def test_an_odd_object_without_a_revision_is_not_waited_for():
    server, cache = Server(child("a", 9), revision=100), Cache(revision=8)
    cache.quarantined["default/a"] = Undecodable("default/a", "", "", "not a widget")
    async with confirming(server, cache) as task:
        await asyncio.wait_for(task, 2.0)


async def test_contents_of_a_large_store_are_compared_after_a_quarter_of_a_second():
    objects = [child(f"a{n}", n + 1) for n in range(3)]
    server, cache = Server(*objects, revision=100), Cache(*objects, revision=8)
    async with confirming(server, cache) as task:
        await asyncio.sleep(0.2)
        assert server.limits == [500]
        await asyncio.wait_for(task, 0.1)
        assert server.limits == [500, 500, 500]


@pytest.mark.parametrize(
    ("read", "lists"),
    [(None, [500]), (4.0, [500]), (5.0, [500]), (6.0, [1])],
    ids=["never", "before", "at the same moment", "after"],
)
async def test_a_store_that_was_read_at_quorum_since_then_is_not_compared(
    read: float | None, lists: list[int]
):
    server, cache = Server(revision=100), Cache(revision=8)
    cache.quorum_read = read
    async with confirming(server, cache, since=5.0) as task:
        await asyncio.wait_for(task, 0.01)
    assert server.limits == lists, "one object shows that lists are allowed"


async def test_an_unreadable_object_keeps_no_operator_from_starting(widgets: WidgetWorld):
    body = {
        "apiVersion": "test.dev/v1",
        "kind": "Widget",
        "metadata": {"name": "a-bad-one", "namespace": "default"},
        "spec": {"size": "many"},
    }
    path = "/apis/test.dev/v1/namespaces/default/widgets"
    await widgets.user.request_json("POST", path, body=body)
    await widgets.create("good", size=1)
    widgets.start()
    await widgets.counted(1, "good", seconds=10)


async def test_a_confirmation_that_takes_too_long_ends_the_process(widgets: WidgetWorld):
    await widgets.create(size=1)
    first = widgets.start()
    await widgets.counted(1)
    await first.kill()
    refused = Rule(
        ErrorResponse(403, "Forbidden", "not that one"), "configmaps", frozenset({"list"})
    )
    with capture_logs() as logs:
        second = widgets.start(rules=[refused], election=FirstCandidate())
        assert await second.task == 1
    assert widgets.loop.time() < 130
    assert second.kind.seen == []
    (failed,) = [line for line in logs if line["event"] == "operator.failed"]
    assert "not that one" in failed["error"]


async def test_a_stop_during_the_confirmation_is_obeyed_at_once(widgets: WidgetWorld):
    refused = Rule(ErrorResponse(403, "Forbidden"), "configmaps", frozenset({"list"}))
    operator = widgets.start(rules=[refused], election=FirstCandidate())
    await widgets.settle(10)
    began = widgets.loop.time()
    assert await operator.stop() == 0
    assert widgets.loop.time() - began < 1


class Limits:
    """A transport that notes the limits of lists."""

    def __init__(self, inner: Transport) -> None:
        self.seen: list[str] = []
        self._inner = inner

    async def request(self, request: Request) -> RawResponse:
        if limit := request.query.get("limit"):
            self.seen.append(limit)
        return await self._inner.request(request)


@pytest.mark.parametrize(
    ("election", "limits"),
    [(None, ["1", "1"]), (FirstCandidate(), ["500", "500"])],
    ids=["alone", "elected"],
)
async def test_an_operator_that_was_elected_compares_each_cache(
    widgets: WidgetWorld, election: Election | None, limits: list[str]
):
    server = Limits(widgets.server)
    widgets.start(election=election, server=server)
    await widgets.create(size=1)
    await widgets.counted(1)
    assert server.seen == limits
