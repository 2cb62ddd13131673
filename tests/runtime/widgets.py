"""A toy kind for tests of the runtime: a Widget owns as many children as its `size` says.

Children are ConfigMaps, which end at once, or any other resource. A `WidgetWorld` is an embedded
API server with a user and operators that can be made to see things late, lose answers and die.
"""

from __future__ import annotations

import random
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec import Struct
from prometheus_client import CollectorRegistry

from controller.apimachinery.conditions import ConditionSet
from controller.apimachinery.metadata import child_name, owner_reference
from controller.kube.objects import KubeObject, View
from controller.kube.resources import CONFIG_MAPS, CRDS, Resource
from controller.kube.transport import Request, Transport
from controller.runtime.election import Election
from controller.runtime.kind import CacheReader, Owned
from controller.runtime.plan import (
    NOTHING,
    Create,
    Delete,
    Event,
    ExternalSource,
    Failure,
    Plan,
    StatusPatch,
    Target,
    Write,
)
from controller.runtime.settings import Settings
from controller.testing.cluster import Cluster, RunningOperator, embedded_server, virtual_wall
from controller.testing.faults import Rule
from devcluster.apiserver import ApiServer
from devcluster.apiserver.store import StoredEvent

LABEL = "widget"
OPERATOR = "widget-operator"


class WidgetSpec(View, frozen=True):
    size: int = 0


class WidgetStatus(View, frozen=True):
    children: int = 0
    conditions: tuple[dict[str, Any], ...] = ()


class Widget(KubeObject, frozen=True):
    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus = WidgetStatus()


WIDGETS = Resource("test.dev", "v1", "widgets", "Widget", Widget)
GADGETS = Resource("test.dev", "v1", "gadgets", "Gadget", KubeObject)


def definition(resource: Resource[Any]) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


class Seen(Struct, frozen=True):
    widget: Widget
    children: tuple[KubeObject, ...]
    revision: str
    pending_scopes: frozenset[str]
    consistency_warnings: tuple[str, ...]
    taken: frozenset[str]


@dataclass
class WidgetKind:
    """Makes and removes children; everything about it can be overridden for a test."""

    child: Resource[Any] = CONFIG_MAPS
    selector: str = LABEL
    scopes: bool = True
    plan_hook: Callable[[Seen], Plan | None] = lambda _seen: None
    name: str = "widget-controller"
    primary: Resource[Any] = WIDGETS
    optional: bool = False
    external_source: ExternalSource | None = None
    unready_reason = ""
    seen: list[Seen] = field(default_factory=list)

    @property
    def owned(self) -> tuple[Owned[Any], ...]:
        return (Owned(self.child, label_selector=self.selector),)

    def observe(self, key: str, reads: CacheReader) -> Seen | None:
        widget = reads.get(WIDGETS, key)
        if widget is None:
            return None
        uid = widget.metadata.uid
        children = sorted(reads.by_index(self.child, "owner", uid), key=lambda b: b.metadata.name)
        revision = reads.revision(self.child, uid)
        taken = {
            name
            for name in self.names(widget, revision, 64)
            if reads.record(uid).has_name_conflict(
                self.child, f"{widget.metadata.namespace}/{name}"
            )
        }
        seen = Seen(
            widget,
            tuple(children),
            revision,
            reads.record(uid).pending_scopes,
            reads.record(uid).consistency_warnings,
            frozenset(taken),
        )
        self.seen.append(seen)
        return seen

    def names(self, widget: Widget, revision: str, count: int) -> list[str]:
        return [
            child_name(
                widget.metadata.name,
                owner_uid=widget.metadata.uid,
                group="children",
                position=position,
                revision=revision,
            )
            for position in range(count)
        ]

    def plan(self, observation: Seen, now: datetime) -> Plan:
        override = self.plan_hook(observation)
        if override is not None:
            return override
        widget = observation.widget
        if widget.metadata.terminating:
            return NOTHING
        writes: list[Write] = []
        missing = widget.spec.size - len(observation.children)
        if not (self.scopes and "children" in observation.pending_scopes):
            writes = self._difference(observation, missing)
        status = StatusPatch(self.status(observation, (), now), urgent=False)
        return Plan(stages=(tuple(writes),), status=status)

    def status_after(
        self, observation: Seen, plan: Plan, failures: tuple[Failure, ...], now: datetime
    ) -> StatusPatch | None:
        return StatusPatch(self.status(observation, failures, now))

    def status(self, seen: Seen, failures: tuple[Failure, ...], now: datetime) -> dict[str, Any]:
        message = "; ".join([f.message for f in failures[:1]] or seen.consistency_warnings)
        reason = failures[0].reason if failures else "Counted"
        widget = seen.widget
        conditions = ConditionSet(widget.status.conditions, widget.metadata.generation, now)
        conditions.set("Ready", "False" if message else "True", reason, message)
        return {"children": len(seen.children), "conditions": conditions.as_list()}

    def _difference(self, seen: Seen, missing: int) -> list[Write]:
        widget = seen.widget
        if missing > 0:
            free = [
                name
                for name in self.names(widget, seen.revision, missing + len(seen.taken))
                if name not in seen.taken
            ]
            return [self.create(widget, name) for name in free[:missing]]
        alive = [child for child in seen.children if not child.metadata.terminating]
        surplus = len(alive) - widget.spec.size
        return [self.delete(child) for child in alive[: max(0, surplus)]]

    def create(self, widget: Widget, name: str) -> Create:
        namespace = widget.metadata.namespace
        body = {
            "apiVersion": self.child.api_version,
            "kind": self.child.kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {LABEL: widget.metadata.name},
                "ownerReferences": [owner_reference(WIDGETS, widget.metadata)],
            },
        }
        event = Event("Normal", "CreatedChild", "Create", f"created {name}")
        target = Target(self.child, namespace, name, "children")
        return Create(target, body, on_success=event)

    def delete(self, child: KubeObject) -> Delete:
        meta = child.metadata
        return Delete(Target(self.child, meta.namespace, meta.name, "children"), meta.uid)


class WidgetWorld(Cluster):
    """An API server with a user, and what happened to children on it."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server, virtual_wall, server)
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.most = 0
        server.on_write.append(self._on_write)

    @property
    def children(self) -> int:
        return len(self.created) - len(self.deleted)

    def start(
        self,
        *,
        kind: WidgetKind | None = None,
        rules: Iterable[Rule] = (),
        settings: Settings | None = None,
        election: Election | None = None,
        registry: CollectorRegistry | None = None,
        seed: int = 0,
        server: Transport | None = None,
        also: Iterable[WidgetKind] = (),
    ) -> RunningOperator:
        return self.run_operator(
            kind or WidgetKind(),
            *also,
            agent=OPERATOR,
            rng=random.Random(seed),
            rules=rules,
            transport=server,
            settings=settings,
            registry=registry,
            election=election,
        )

    async def create(self, name: str = "f", *, size: int = 1) -> Widget:
        body = {
            "apiVersion": "test.dev/v1",
            "kind": "Widget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"size": size},
        }
        return await self.user.create(WIDGETS, "default", body)

    async def resize(self, size: int, name: str = "f") -> None:
        await self.user.merge_patch(WIDGETS, "default", name, {"spec": {"size": size}})

    async def widget(self, name: str = "f") -> Widget:
        return await self.user.get(WIDGETS, "default", name)

    async def counted(self, children: int, name: str = "f", *, seconds: float = 60.0) -> None:
        """Wait until the status says that there are so many."""

        async def reached() -> bool:
            return (await self.widget(name)).status.children == children

        await self.eventually(reached, seconds=seconds)

    def requests(self, *verbs: str, resource: str = "") -> int:
        return sum(
            count
            for (agent, verb, what), count in self.server.audit.requests.items()
            if agent == OPERATOR and verb in verbs and resource in {"", what}
        )

    def _on_write(self, event: StoredEvent) -> None:
        if event.table not in {"configmaps", "gadgets.test.dev", "pods"}:
            return
        if LABEL not in (event.current.object["metadata"].get("labels") or {}):
            return
        if event.type == "ADDED":
            self.created.append(event.key)
        elif event.type == "DELETED":
            self.deleted.append(event.key)
        self.most = max(self.most, self.children)


@asynccontextmanager
async def widget_world() -> AsyncIterator[WidgetWorld]:
    async with embedded_server(seed=7) as server:
        world = WidgetWorld(server)
        for resource in (WIDGETS, GADGETS):
            await world.user.create(CRDS, "", definition(resource))
        try:
            yield world
        finally:
            await world.kill_operators()


class StaleCache:
    """A transport whose server answers lists of one resource from an old cache.

    As an API server may that has lost touch with etcd: lists at revision 0 are answered with what
    was there when this object was made; only quorum reads see the present.
    """

    def __init__(self, inner: Transport, path: str) -> None:
        self._inner = inner
        self._path = path
        self._old: tuple[int, dict[str, str], bytes] | None = None

    async def remember(self, query: Mapping[str, str]) -> None:
        """Take the present answer to this list for the old one."""
        status, headers, chunks = await self._inner.request(Request("GET", self._path, query))
        body = b"".join([chunk async for chunk in chunks])
        self._old = status, dict(headers), body

    async def request(self, request: Request) -> Any:
        query = request.query
        if request.path == self._path and request.method == "GET":
            if "sendInitialEvents" in query:
                return 400, {"content-type": "application/json"}, _once(_NO_STREAMING)
            if query.get("resourceVersion") == "0" and "watch" not in query and self._old:
                status, answer_headers, old = self._old
                return status, answer_headers, _once(old)
        return await self._inner.request(request)


_NO_STREAMING = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":400,'
    b'"reason":"BadRequest","message":"sendInitialEvents is forbidden"}'
)


async def _once(body: bytes) -> AsyncGenerator[bytes]:
    yield body
