"""A toy kind for tests of the runtime: a Flock owns as many birds as its `size` says.

Birds are ConfigMaps, which end at once, or any other resource. A `FlockWorld` is an embedded API
server with a user and operators that can be made to see things late, lose answers and die.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from controller.apimachinery.conditions import set_condition
from controller.apimachinery.names import child_name
from controller.apimachinery.ownership import owner_reference
from controller.devcluster.apiserver import ApiServer
from controller.kube.client import Client
from controller.kube.objects import KubeObject, View
from controller.kube.resources import CONFIG_MAPS, CRDS, Resource
from controller.runtime.operator import Operator
from controller.runtime.reconcile.kind import Owned
from controller.runtime.reconcile.plan import (
    NOTHING,
    Create,
    Delete,
    Event,
    Plan,
    StatusPatch,
    Target,
)
from controller.runtime.settings import Settings
from tests.faults.faulty_transport import FaultyTransport

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterable,
        Mapping,
    )

    from controller.devcluster.apiserver.store import StoredEvent
    from controller.kube.transport import Transport
    from controller.runtime.leaderelection.election import Election
    from controller.runtime.reconcile.external import ExternalSource
    from controller.runtime.reconcile.kind import CacheReader
    from controller.runtime.reconcile.plan import Failure, Write
    from tests.faults.faulty_transport import Rule

LABEL = "flock"
OPERATOR = "flock-operator"


class FlockSpec(View, frozen=True):
    size: int = 0


class FlockStatus(View, frozen=True):
    birds: int = 0
    conditions: tuple[dict[str, Any], ...] = ()


class Flock(KubeObject, frozen=True):
    spec: FlockSpec = FlockSpec()
    status: FlockStatus = FlockStatus()


FLOCKS = Resource("test.dev", "v1", "flocks", "Flock", Flock)
EGGS = Resource("test.dev", "v1", "eggs", "Egg", KubeObject)


def definition(resource: Resource[Any]) -> dict[str, Any]:
    """A CustomResourceDefinition that lets anything pass."""
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


@dataclass(frozen=True)
class Seen:
    """What the kind observes."""

    flock: Flock
    birds: tuple[KubeObject, ...]
    revision: str
    unsettled: frozenset[str]
    doubts: tuple[str, ...]
    taken: frozenset[str]


@dataclass
class FlockKind:
    """Makes and removes birds; everything about it can be overridden for a test."""

    bird: Resource[Any] = CONFIG_MAPS
    selector: str = LABEL
    scopes: bool = True
    plan_hook: Callable[[Seen], Plan | None] = lambda _seen: None
    name: str = "flock-controller"
    primary: Resource[Any] = FLOCKS
    optional: bool = False
    external_source: ExternalSource | None = None
    seen: list[Seen] = field(default_factory=list)

    @property
    def owned(self) -> tuple[Owned[Any], ...]:
        return (Owned(self.bird, label_selector=self.selector),)

    def observe(self, key: str, reads: CacheReader) -> Seen | None:
        flock = reads.get(FLOCKS, key)
        if flock is None:
            return None
        uid = flock.metadata.uid
        birds = sorted(reads.by_index(self.bird, "owner", uid), key=lambda b: b.metadata.name)
        revision = reads.revision(self.bird, uid)
        taken = {
            name
            for name in self.names(flock, revision, 64)
            if reads.has_name_conflict(self.bird, f"{flock.metadata.namespace}/{name}")
        }
        seen = Seen(
            flock,
            tuple(birds),
            revision,
            reads.pending_scopes(uid),
            reads.consistency_warnings(uid),
            frozenset(taken),
        )
        self.seen.append(seen)
        return seen

    def names(self, flock: Flock, revision: str, count: int) -> list[str]:
        return [
            child_name(
                flock.metadata.name,
                owner_uid=flock.metadata.uid,
                group="birds",
                position=position,
                revision=revision,
            )
            for position in range(count)
        ]

    def plan(self, observation: Seen, now: datetime) -> Plan:
        override = self.plan_hook(observation)
        if override is not None:
            return override
        flock = observation.flock
        if flock.metadata.terminating:
            return NOTHING
        writes: list[Write] = []
        missing = flock.spec.size - len(observation.birds)
        if not (self.scopes and "birds" in observation.unsettled):
            writes = self._difference(observation, missing)
        status = StatusPatch(self.status(observation, (), now), urgent=False)
        return Plan(stages=(tuple(writes),), status=status)

    def status_after(
        self, observation: Seen, plan: Plan, failures: tuple[Failure, ...], now: datetime
    ) -> StatusPatch | None:
        return StatusPatch(self.status(observation, failures, now))

    def status(self, seen: Seen, failures: tuple[Failure, ...], now: datetime) -> dict[str, Any]:
        message = "; ".join([f.message for f in failures[:1]] or seen.doubts)
        conditions = set_condition(
            seen.flock.status.conditions,
            "Ready",
            "False" if message else "True",
            failures[0].reason if failures else "Counted",
            message,
            seen.flock.metadata.generation,
            now,
        )
        return {"birds": len(seen.birds), "conditions": conditions}

    def _difference(self, seen: Seen, missing: int) -> list[Write]:
        flock = seen.flock
        if missing > 0:
            free = [
                name
                for name in self.names(flock, seen.revision, missing + len(seen.taken))
                if name not in seen.taken
            ]
            return [self.create(flock, name) for name in free[:missing]]
        alive = [bird for bird in seen.birds if not bird.metadata.terminating]
        surplus = len(alive) - flock.spec.size
        return [self.delete(bird) for bird in alive[: max(0, surplus)]]

    def create(self, flock: Flock, name: str) -> Create:
        namespace = flock.metadata.namespace
        body = {
            "apiVersion": self.bird.api_version,
            "kind": self.bird.kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {LABEL: flock.metadata.name},
                "ownerReferences": [owner_reference(FLOCKS, flock.metadata)],
            },
        }
        event = Event("Normal", "Hatched", "Create", f"hatched {name}")
        target = Target(self.bird, namespace, name, "birds")
        return Create(target, body, on_success=event)

    def delete(self, bird: KubeObject) -> Delete:
        meta = bird.metadata
        return Delete(Target(self.bird, meta.namespace, meta.name, "birds"), meta.uid)


class RunningOperator:
    """An operator in this process, behind a transport that can misbehave."""

    def __init__(self, operator: Operator, transport: FaultyTransport, kind: FlockKind) -> None:
        self.operator = operator
        self.transport = transport
        self.kind = kind
        self._stop = asyncio.Event()
        self.task = asyncio.create_task(operator.run(self._stop))

    async def stop(self) -> int:
        self._stop.set()
        return await self.task

    async def kill(self) -> None:
        self.transport.sever()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class FlockWorld:
    """An API server with a user, and what happened to birds on it."""

    def __init__(self, server: ApiServer, wall: Callable[[], datetime]) -> None:
        self.server = server
        self.wall = wall
        self.user = Client(server, user_agent="user", clock=self.loop)
        self.operators: list[RunningOperator] = []
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.most = 0
        server.on_write.append(self._on_write)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @property
    def birds(self) -> int:
        return len(self.created) - len(self.deleted)

    def start(
        self,
        *,
        kind: FlockKind | None = None,
        rules: Iterable[Rule] = (),
        settings: Settings | None = None,
        election: Election | None = None,
        registry: CollectorRegistry | None = None,
        seed: int = 0,
        server: Transport | None = None,
        also: Iterable[FlockKind] = (),
    ) -> RunningOperator:
        kind = kind or FlockKind()
        transport = FaultyTransport(server or self.server, list(rules), clock=self.loop)
        operator = Operator(
            Client(transport, user_agent=OPERATOR, clock=self.loop),
            [kind, *also],
            settings or Settings(workers=4, metrics_address="", health_address=""),
            clock=self.loop,
            wall=self.wall,
            rng=random.Random(seed),
            registry=registry or CollectorRegistry(),
            election=election,
        )
        running = RunningOperator(operator, transport, kind)
        self.operators.append(running)
        return running

    async def create(self, name: str = "f", *, size: int = 1) -> Flock:
        body = {
            "apiVersion": "test.dev/v1",
            "kind": "Flock",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"size": size},
        }
        return await self.user.create(FLOCKS, "default", body)

    async def resize(self, size: int, name: str = "f") -> None:
        await self.user.merge_patch(FLOCKS, "default", name, {"spec": {"size": size}})

    async def flock(self, name: str = "f") -> Flock:
        return await self.user.get(FLOCKS, "default", name)

    async def eventually(
        self, reached: Callable[[], Any | Awaitable[Any]], *, seconds: float = 60.0
    ) -> Any:
        deadline = self.loop.time() + seconds
        while True:
            result = reached()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return result
            assert self.loop.time() < deadline, f"not reached within {seconds} s"
            await asyncio.sleep(0.05)

    async def counted(self, birds: int, name: str = "f", *, seconds: float = 60.0) -> None:
        """Wait until the status says that there are so many."""

        async def reached() -> bool:
            return (await self.flock(name)).status.birds == birds

        await self.eventually(reached, seconds=seconds)

    async def settle(self, seconds: float) -> None:
        """Let time pass in which nothing ought to happen."""
        await asyncio.sleep(seconds)

    def requests(self, *verbs: str, resource: str = "") -> int:
        return sum(
            count
            for (agent, verb, what), count in self.server.audit.requests.items()
            if agent == OPERATOR and verb in verbs and resource in {"", what}
        )

    def _on_write(self, event: StoredEvent) -> None:
        if event.table not in {"configmaps", "eggs.test.dev", "pods"}:
            return
        if LABEL not in (event.current.object["metadata"].get("labels") or {}):
            return
        if event.type == "ADDED":
            self.created.append(event.key)
        elif event.type == "DELETED":
            self.deleted.append(event.key)
        self.most = max(self.most, self.birds)


@asynccontextmanager
async def flock_world() -> AsyncIterator[FlockWorld]:
    loop = asyncio.get_running_loop()
    epoch = datetime(2026, 1, 1, tzinfo=UTC)

    def wall() -> datetime:
        return epoch + timedelta(seconds=loop.time())

    server = ApiServer(wall=wall, clock=loop, rng=random.Random(7))
    world = FlockWorld(server, wall)
    for resource in (FLOCKS, EGGS):
        await world.user.create(CRDS, "", definition(resource))
    try:
        yield world
    finally:
        for operator in world.operators:
            await operator.kill()
        await server.aclose()


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
        status, headers, chunks = await self._inner.request("GET", self._path, query, {}, None)
        body = b"".join([chunk async for chunk in chunks])
        self._old = status, dict(headers), body

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Any:
        if path == self._path and method == "GET":
            if "sendInitialEvents" in query:
                return 400, {"content-type": "application/json"}, _once(_NO_STREAMING)
            if query.get("resourceVersion") == "0" and "watch" not in query and self._old:
                status, answer_headers, old = self._old
                return status, answer_headers, _once(old)
        return await self._inner.request(method, path, query, headers, body)


_NO_STREAMING = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":400,'
    b'"reason":"BadRequest","message":"sendInitialEvents is forbidden"}'
)


async def _once(body: bytes) -> AsyncGenerator[bytes]:
    yield body
