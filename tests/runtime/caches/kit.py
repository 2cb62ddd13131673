"""Caches over an embedded API server, without an operator."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from controller.kube.client import Client
from controller.kube.objects import KubeObject
from controller.kube.resources import CONFIG_MAPS, CRDS, Resource
from controller.runtime.cache import Cache
from controller.runtime.caches import Caches
from controller.runtime.expectations import Expectations
from controller.runtime.kind import Kind, Owned
from controller.runtime.record import Owner
from controller.testing.faults import FaultyTransport, Rule
from devcluster.apiserver import ApiServer
from informers import Undecodable
from tests.runtime.widgets import WIDGETS, definition

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kind(*owned: Owned[Any], primary: Resource[Any] = WIDGETS, optional: bool = False) -> Kind[Any]:
    """A kind as far as caches know it."""
    owned = owned or (Owned(CONFIG_MAPS, label_selector="widget"),)
    name = f"{primary.kind.lower()}-controller"
    made: Any = SimpleNamespace(name=name, primary=primary, owned=owned, optional=optional)
    return made


@dataclass
class Served:
    """A controller that notes the keys that it is given; as its own queue, too."""

    name: str = "widget-controller"
    added: list[tuple[str, int]] = field(default_factory=list)

    @property
    def queue(self) -> Served:
        return self

    def add(self, key: str, *, priority: int) -> None:
        self.added.append((key, priority))

    @property
    def keys(self) -> set[str]:
        found = {key for key, _ in self.added}
        self.added.clear()
        return found


class CacheWorld:
    """An API server with a user, and caches of some kinds that read it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.server = ApiServer(wall=lambda: NOW, clock=self.loop, rng=random.Random(7))
        self.user = Client(self.server, user_agent="user", clock=self.loop)
        self.transport = FaultyTransport(self.server, clock=self.loop)
        self.client = Client(self.transport, user_agent="caches", clock=self.loop)
        self.expectations = Expectations(now=self.loop.time, wall=lambda: NOW)
        self.said: list[str] = []
        self.watched: list[tuple[Resource[Any], str]] = []
        self.odd: list[tuple[Resource[Any], Undecodable]] = []
        self.caches: Any = None

    def build(self, kinds: Sequence[Kind[Any]], **more: Any) -> Caches:
        settings: dict[str, Any] = {"namespaces": (), "sync_timeout": 120.0, **more}
        self.caches = Caches(
            self.client,
            kinds,
            expectations=self.expectations,
            clock=self.loop,
            rng=random.Random(1),
            on_synced=lambda: self.said.append("synced"),
            on_quarantine=lambda resource, odd: self.odd.append((resource, odd)),
            on_watch=lambda *watched: self.watched.append(watched),
            **settings,
        )
        return self.caches

    async def run(self) -> None:
        await self.caches.run(lambda: self.said.append("ready"))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.run())
        await asyncio.sleep(1)
        yield
        self.caches.stop()
        await task

    def cache(self, resource: Resource[Any], namespace: str = "") -> Cache:
        (found,) = (
            each
            for each in self.caches.caches
            if (each.scope.resource, each.scope.namespace) == (resource, namespace)
        )
        return found

    async def widget(self, name: str = "f", namespace: str = "default", **spec: Any) -> KubeObject:
        body = {"metadata": {"name": name}, "spec": spec}
        return await self.create(WIDGETS, body, namespace)

    async def odd_widget(self) -> None:
        """Create a widget that does not fit its type."""
        body = {
            "apiVersion": WIDGETS.api_version,
            "kind": WIDGETS.kind,
            "metadata": {"name": "odd"},
            "spec": {"size": "many"},
        }
        await self.user.request_json("POST", WIDGETS.path("default"), body=body)

    async def child(self, name: str, owner: KubeObject | None = None, **labels: str) -> KubeObject:
        reference = {"apiVersion": WIDGETS.api_version, "kind": WIDGETS.kind, "controller": True}
        if owner is not None:
            reference |= {"name": owner.metadata.name, "uid": owner.metadata.uid}
        metadata = {
            "name": name,
            "labels": {"widget": "f", **labels},
            "ownerReferences": [reference] if owner is not None else [],
        }
        return await self.create(CONFIG_MAPS, {"metadata": metadata})

    async def create(
        self, resource: Resource[Any], body: dict[str, Any], namespace: str = "default"
    ) -> KubeObject:
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        return await self.user.create(resource, namespace, typed)

    def questions(self, owner: Owner) -> list[str]:
        """Names of objects that the owner's next reconcile reads live."""
        return [
            reference.name
            for reference in self.expectations.record(owner.uid).questions(self.loop.time()).reads
        ]

    def owner(self, widget: KubeObject) -> Owner:
        owner = Owner(widget.metadata.uid, widget.metadata.key, "widgets")
        self.expectations.add_owner(owner)
        return owner


@asynccontextmanager
async def cache_world(rules: Iterable[Rule] = ()) -> AsyncIterator[CacheWorld]:
    world = CacheWorld()
    await world.user.create(CRDS, "", definition(WIDGETS))
    world.transport.rules = list(rules)
    try:
        yield world
    finally:
        await world.server.aclose()
