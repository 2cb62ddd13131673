"""No write before the caches are as new as the moment at which they are confirmed (EXP-27)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from controller.kube.objects import ObjectList
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.expectations.cache_barrier import CacheBarrier, CacheScope
from informers import Store
from tests.faults.faulty_transport import DelayedRequest, ErrorResponse, Rule, watch_lag
from tests.runtime.flock import flock_world
from tests.runtime.kit import bird

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controller.kube.objects import ConfigMap
    from tests.runtime.flock import FlockWorld


@pytest.fixture
async def flocks() -> AsyncIterator[FlockWorld]:
    async with flock_world() as world:
        yield world


class Cache:
    """A store that a test moves, in the place of an informer."""

    def __init__(self, *objects: ConfigMap, revision: int) -> None:
        self.store: Store[ConfigMap] = Store()
        self.store.replace(objects, str(revision))
        self.lister = self.store
        self.callbacks: list[Callable[[str], None]] = []
        self.quarantined: dict[str, str] = {}

    @property
    def resource_version(self) -> str:
        return self.store.resource_version

    def on_advance(self, callback: Callable[[str], None]) -> None:
        self.callbacks.append(callback)

    def move(self, *objects: ConfigMap, revision: int) -> None:
        self.store.replace(objects, str(revision))
        for callback in self.callbacks:
            callback(str(revision))


class Server:
    """Lists at quorum what it was made with, two objects a page."""

    def __init__(self, *objects: ConfigMap, revision: int) -> None:
        self.objects = list(objects)
        self.revision = revision
        self.limits: list[int] = []

    async def list(self, *_args: object, limit: int, continue_: str, **_more: object):
        self.limits.append(limit)
        start = int(continue_ or 0)
        page = self.objects[start : start + min(limit, 2)]
        end = start + len(page)
        following = str(end) if end < len(self.objects) and limit > 1 else ""
        return ObjectList(page, str(self.revision), following)


@asynccontextmanager
async def confirming(server: Server, cache: Cache) -> AsyncIterator[asyncio.Task[None]]:
    confirmation = CacheBarrier(server, CacheScope(CONFIG_MAPS), cache)  # type: ignore[arg-type]
    task = asyncio.create_task(confirmation.wait())
    yield task
    task.cancel()
    await asyncio.wait([task])


async def test_a_store_at_the_revision_is_confirmed_by_one_cheap_list():
    server, cache = Server(revision=10), Cache(revision=10)
    async with confirming(server, cache) as task:
        await asyncio.wait_for(task, 0.1)
    assert server.limits == [1]


async def test_an_older_store_is_waited_for():
    server, cache = Server(bird("a", 9), revision=10), Cache(revision=8)
    async with confirming(server, cache) as task:
        await asyncio.sleep(60)
        assert not task.done()
        cache.move(revision=9)
        await asyncio.sleep(0.1)
        assert not task.done()
        cache.move(bird("a", 9), revision=11)
        await asyncio.wait_for(task, 0.1)


async def test_a_quiet_store_is_confirmed_by_its_contents_without_a_bookmark():
    objects = [bird(f"a{n}", n + 1) for n in range(5)]
    server, cache = Server(*objects, revision=100), Cache(*objects, revision=8)
    async with confirming(server, cache) as task:
        await asyncio.wait_for(task, 2.0)
    assert server.limits == [1, 500, 500, 500], "paged"


@pytest.mark.parametrize(
    "stale",
    [
        [bird("a", 1)],
        [bird("a", 1), bird("b", 2), bird("gone", 3)],
        [bird("a", 1), bird("b", 1)],
    ],
    ids=["one missing", "one too many", "one too old"],
)
async def test_contents_that_differ_are_not_confirmed(stale: list[ConfigMap]):
    truth = [bird("a", 1), bird("b", 2)]
    server, cache = Server(*truth, revision=100), Cache(*stale, revision=8)
    async with confirming(server, cache) as task:
        await asyncio.sleep(60)
        assert not task.done()
        cache.move(*truth, revision=9)
        await asyncio.wait_for(task, 0.1)


async def test_what_the_cache_cannot_read_is_not_waited_for():
    server, cache = (
        Server(bird("a", 9), bird("b", 2), revision=100),
        Cache(bird("b", 2), revision=8),
    )
    cache.quarantined["default/a"] = "not a flock"
    async with confirming(server, cache) as task:
        await asyncio.wait_for(task, 2.0)


async def test_an_unreadable_object_keeps_no_operator_from_starting(flocks: FlockWorld):
    body = {
        "apiVersion": "test.dev/v1",
        "kind": "Flock",
        "metadata": {"name": "a-bad-one", "namespace": "default"},
        "spec": {"size": "many"},
    }
    path = "/apis/test.dev/v1/namespaces/default/flocks"
    await flocks.user.request_json("POST", path, body=body)
    await flocks.create("good", size=1)
    flocks.start()
    await flocks.counted(1, "good", seconds=10)


async def test_a_start_does_not_wait_for_bookmarks(flocks: FlockWorld):
    operator = flocks.start(rules=[Rule(DelayedRequest(0.05), "configmaps", frozenset({"watch"}))])
    await flocks.create(size=1)
    await flocks.counted(1, seconds=5)
    assert await operator.stop() == 0


async def test_EXP28_a_confirmation_that_takes_too_long_ends_the_process(flocks: FlockWorld):
    await flocks.create(size=1)
    first = flocks.start()
    await flocks.counted(1)
    await first.kill()
    refused = Rule(
        ErrorResponse(403, "Forbidden", "not that one"), "configmaps", frozenset({"list"})
    )
    with capture_logs() as logs:
        second = flocks.start(rules=[refused, watch_lag("flocks.test.dev", 0.0)])
        assert await second.task == 1
    assert flocks.loop.time() < 130
    assert second.kind.seen == []
    (failed,) = [line for line in logs if line["event"] == "operator.failed"]
    assert "not that one" in failed["error"]


async def test_a_stop_during_the_confirmation_is_obeyed_at_once(flocks: FlockWorld):
    refused = Rule(ErrorResponse(403, "Forbidden"), "configmaps", frozenset({"list"}))
    operator = flocks.start(rules=[refused])
    await flocks.settle(10)
    began = flocks.loop.time()
    assert await operator.stop() == 0
    assert flocks.loop.time() - began < 1
