"""APIs that a server may lack: watched where they are, and otherwise not missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from controller.kube.errors import UnexpectedResponse
from controller.kube.objects import KubeObject
from controller.kube.resources import CONFIG_MAPS, CRDS, PODS, Resource
from controller.kube.source import is_served
from controller.kube.transport import RawResponse, Request, Transport
from controller.runtime.kind import CacheReader, Owned
from tests.kube.fakes import FakeTransport, answer, client
from tests.runtime.widgets import RunningOperator, Seen, WidgetKind, WidgetWorld, definition

RARE = Resource("rare.dev", "v1", "rarities", "Rarity", KubeObject)
ROOT = "/apis/rare.dev/v1"


@dataclass
class CollectorKind(WidgetKind):
    """A kind that would own rarities, too."""

    extra: Owned[Any] = field(default_factory=lambda: Owned(RARE, optional=True))

    @property
    def owned(self) -> tuple[Owned[Any], ...]:
        return (*super().owned, self.extra)


@dataclass
class RarityKind(WidgetKind):
    """Notes the keys that it is asked about."""

    keys: set[str] = field(default_factory=set[str])

    def observe(self, key: str, reads: CacheReader) -> Seen | None:
        assert reads.get(RARE, key) is not None
        self.keys.add(key)


class Reluctant:
    """Refuses the first questions about the optional API; all requests while it is `down`."""

    def __init__(self, inner: Transport, code: int, times: int) -> None:
        self._inner = inner
        self._code = code
        self._left = times
        self.asked = 0
        self.down = False

    async def request(self, request: Request) -> RawResponse:
        if request.path == ROOT or (self.down and request.path.startswith(ROOT)):
            self.asked += 1
            if self.down or self.asked <= self._left:
                status = {"kind": "Status", "apiVersion": "v1", "code": self._code}
                return self._code, {"content-type": "application/json"}, once(status)
        return await self._inner.request(request)


async def once(body: Mapping[str, Any]) -> AsyncGenerator[bytes]:
    yield json.dumps(body).encode()


def watched(operator: RunningOperator) -> set[str]:
    return {str(cache.scope.resource) for cache in operator.operator.caches.caches}


async def test_with_the_api_its_events_wake_the_owner(widgets: WidgetWorld):
    await widgets.user.create(CRDS, "", definition(RARE))
    kind = CollectorKind(
        extra=Owned(RARE, optional=True, also_enqueues=lambda _obj: ("default/f",))
    )
    operator = widgets.start(kind=kind)
    await widgets.create(size=1)
    await widgets.counted(1)
    assert operator.operator.expectations.reader.serves(RARE)
    await widgets.settle(5)
    seen = len(kind.seen)
    rarity = {"apiVersion": "rare.dev/v1", "kind": "Rarity", "metadata": {"name": "a"}}
    await widgets.user.create(RARE, "default", rarity)
    await widgets.settle(5)
    assert len(kind.seen) > seen
    assert operator.operator.expectations.reader.get(RARE, "default/a") is not None


async def test_the_question_is_repeated_until_there_is_an_answer(widgets: WidgetWorld):
    await widgets.user.create(CRDS, "", definition(RARE))
    server = Reluctant(widgets.server, 500, times=3)
    operator = widgets.start(kind=CollectorKind(), server=server)
    await widgets.create(size=1)
    await widgets.counted(1)
    assert server.asked == 4
    assert "rarities.rare.dev" in watched(operator)


async def test_a_server_that_is_slow_to_tell_is_asked_for_all_of_them_at_once(
    widgets: WidgetWorld,
):
    class Slow:
        async def request(self, request: Request) -> RawResponse:
            if request.path in {ROOT, "/apis/scarce.dev/v1"}:
                await asyncio.sleep(10)
            return await widgets.server.request(request)

    scarce = Owned(
        Resource("scarce.dev", "v1", "scarcities", "Scarcity", KubeObject), optional=True
    )

    class TwiceCollectorKind(CollectorKind):
        @property
        def owned(self) -> tuple[Owned[Any], ...]:
            return (*super().owned, scarce)

    began = widgets.loop.time()
    widgets.start(kind=TwiceCollectorKind(), server=Slow())
    await widgets.create(size=1)
    await widgets.counted(1)
    assert 10 < widgets.loop.time() - began < 15


async def test_the_server_is_asked_while_it_still_sends_what_every_server_has(
    widgets: WidgetWorld,
):
    class Slow:
        async def request(self, request: Request) -> RawResponse:
            if request.path == ROOT or (request.watching and "configmaps" in request.path):
                await asyncio.sleep(10)
            return await widgets.server.request(request)

    began = widgets.loop.time()
    widgets.start(kind=CollectorKind(), server=Slow())
    await widgets.create(size=1)
    await widgets.counted(1)
    assert 10 < widgets.loop.time() - began < 15


async def test_who_may_not_ask_does_without(widgets: WidgetWorld):
    server = Reluctant(widgets.server, 403, times=99)
    operator = widgets.start(kind=CollectorKind(), server=server)
    await widgets.create(size=1)
    await widgets.counted(1)
    assert server.asked == 1
    assert not operator.operator.expectations.reader.serves(RARE)


@pytest.mark.parametrize(
    "body", [b"{}", b'{"resources": []}', b'{"kind": "Status", "resources": []}', b"null", b"[]"]
)
async def test_a_body_that_is_no_list_of_resources_does_not_say_that_one_is_gone(body: bytes):
    asked = client(FakeTransport(lambda: answer(200, body)))
    with pytest.raises(UnexpectedResponse):
        await is_served(asked, PODS)


@pytest.mark.parametrize("installed", [True, False])
async def test_children_that_are_known_before_their_optional_owner_are_no_error(
    widgets: WidgetWorld, installed: bool, caplog: pytest.LogCaptureFixture
):
    if installed:
        await widgets.user.create(CRDS, "", definition(RARE))
    owner = {"apiVersion": "rare.dev/v1", "kind": "Rarity", "name": "a", "uid": "u"}
    meta = {"name": "child", "ownerReferences": [owner | {"controller": True}]}
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    await widgets.user.create(CONFIG_MAPS, "default", child)
    kind = RarityKind(primary=RARE, optional=True, name="rare-controller", selector="")
    widgets.start(kind=WidgetKind(selector=""), also=[kind])
    await widgets.settle(5)
    assert caplog.messages == []


async def test_an_api_that_is_installed_later_is_used_without_a_restart(widgets: WidgetWorld):
    kind = CollectorKind()
    operator = widgets.start(kind=kind)
    await widgets.create(size=1)
    await widgets.counted(1)
    await widgets.settle(60)
    seen = len(kind.seen)
    await widgets.user.create(CRDS, "", definition(RARE))
    await widgets.eventually(lambda: operator.operator.expectations.reader.serves(RARE))
    await widgets.eventually(lambda: len(kind.seen) > seen)


async def test_an_api_that_is_removed_is_done_without_until_it_is_back(widgets: WidgetWorld):
    await widgets.user.create(CRDS, "", definition(RARE))
    kind = CollectorKind()
    operator = widgets.start(kind=kind)
    await widgets.create(size=1)
    await widgets.counted(1)
    reads, caches = operator.operator.expectations.reader, operator.operator.caches
    rarity = {"apiVersion": "rare.dev/v1", "kind": "Rarity", "metadata": {"name": "gem"}}
    for _ in range(2):
        await widgets.user.create(RARE, "default", rarity)
        await widgets.eventually(lambda: reads.get(RARE, "default/gem") is not None)
        seen = len(kind.seen)
        await widgets.user.delete(CRDS, "", f"{RARE.plural}.{RARE.group}")
        await widgets.eventually(lambda: not reads.serves(RARE))
        await widgets.eventually(lambda s=seen: len(kind.seen) > s)
        await widgets.settle(1000)
        assert caches.unready() is None
        await caches.confirm(widgets.loop.time())
        seen = len(kind.seen)
        await widgets.user.create(CRDS, "", definition(RARE))
        await widgets.eventually(lambda: reads.serves(RARE))
        await widgets.eventually(lambda s=seen: len(kind.seen) > s)


async def test_an_api_that_is_out_of_reach_is_not_taken_for_removed(widgets: WidgetWorld):
    await widgets.user.create(CRDS, "", definition(RARE))
    server = Reluctant(widgets.server, 503, times=0)
    operator = widgets.start(kind=CollectorKind(), server=server)
    await widgets.create(size=1)
    await widgets.counted(1)
    server.down = True
    await widgets.settle(900)  # the watch ends meanwhile
    assert operator.operator.expectations.reader.serves(RARE)
    assert server.asked > 10


async def test_a_kind_whose_own_api_comes_later_is_served_from_then_on(widgets: WidgetWorld):
    kind = RarityKind(primary=RARE, optional=True, name="rare-controller")
    widgets.start(also=[kind])
    await widgets.create(size=1)
    await widgets.counted(1)
    await widgets.user.create(CRDS, "", definition(RARE))
    rarity = {"apiVersion": "rare.dev/v1", "kind": "Rarity", "metadata": {"name": "gem"}}
    await widgets.user.create(RARE, "default", rarity)
    await widgets.eventually(lambda: kind.keys)
    assert kind.keys == {"default/gem"}
