"""One namespace on an API server, a user in it, and operators that can be started and killed.

The same scenarios run on the embedded API server in virtual time and, with `make test-real`, on a
real one in real time. The only node is the simulated kubelet in both cases.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, wraps
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from controller.apimachinery.conditions import find_condition
from controller.kube.errors import AlreadyExists, NotFound, PathNotFound
from controller.kube.http import HttpTransport
from controller.kube.kubeconfig import load_credentials
from controller.kube.objects import Pod
from controller.kube.resources import CRDS, NAMESPACES, PODS
from controller.kube.source import ResourceSource
from controller.kube.transport import Transport
from controller.ray.api import RAYCLUSTERS, RayCluster, custom_resource_definitions
from controller.ray.cluster import RayClusterKind
from controller.runtime.election import Election
from controller.runtime.kind import Kind
from controller.runtime.settings import Settings
from controller.testing.cluster import Cluster, RunningOperator, embedded_server, virtual_wall
from controller.testing.faults import FaultyTransport, Rule
from devcluster.apiserver import ApiServer
from devcluster.apiserver.objects import new_uid
from devcluster.nodes import COMPONENTS, NodeSettings, run_nodes
from informers import Codec, HistoryChanged, SharedInformer
from tests.informers.doubles import EventHandler
from tests.lab.session import own_kubeconfig

REAL_KUBECONFIG = own_kubeconfig()
EXAMPLES = Path(__file__).parents[2] / "examples"
OPERATOR = "manta-operator"


def example_cluster(name: str = "example", *, replicas: int = 2) -> dict[str, Any]:
    manifest = copy.deepcopy(_example_cluster())
    manifest["metadata"]["name"] = name
    manifest["spec"]["workerGroupSpecs"][0]["replicas"] = replicas
    return manifest


@cache
def _example_cluster() -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / "raycluster.yaml").read_text())


@dataclass
class Journal(EventHandler):
    """Every pod that ever appeared or went, as an observer without lag sees it."""

    created: dict[str, Pod] = field(default_factory=dict)  # by uid
    marked: set[str] = field(default_factory=set)  # uids that got a deletionTimestamp or vanished
    present: dict[str, Pod] = field(default_factory=dict)
    most_live_heads: int = 0  # of one cluster at one time
    heads: dict[str, set[str]] = field(default_factory=dict)  # uids of live ones by cluster

    def on_add(self, obj: Pod, *, initial: bool) -> None:
        self.created[obj.metadata.uid] = obj
        self._saw(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        self._saw(new)

    def on_delete(self, obj: Pod) -> None:
        self.marked.add(obj.metadata.uid)
        self.present.pop(obj.metadata.uid, None)
        self.heads.get(cluster_of(obj), set()).discard(obj.metadata.uid)

    def _saw(self, pod: Pod) -> None:
        self.present[pod.metadata.uid] = pod
        if pod.metadata.terminating:
            self.marked.add(pod.metadata.uid)
        if role(pod) == "head":
            heads = self.heads.setdefault(cluster_of(pod), set())
            (heads.add if live(pod) else heads.discard)(pod.metadata.uid)
            self.most_live_heads = max(self.most_live_heads, len(heads))

    def workers(self) -> list[Pod]:
        return [pod for pod in self.present.values() if role(pod) == "worker" and live(pod)]

    def ready_workers(self) -> list[Pod]:
        return [pod for pod in self.workers() if is_ready(pod)]

    def workers_created(self) -> int:
        return sum(role(pod) == "worker" for pod in self.created.values())

    def workers_deleted(self) -> int:
        return sum(role(pod) == "worker" for uid, pod in self.created.items() if uid in self.marked)


def role(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get("ray.io/node-type", "")


def cluster_of(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get("ray.io/cluster", "")


def live(pod: Pod) -> bool:
    return not pod.metadata.terminating and pod.status.phase not in {"Failed", "Succeeded"}


def is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


class World(Cluster):
    """A namespace with a user, an observer and a simulated kubelet."""

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str,
        server: ApiServer | None,
        wall: Callable[[], datetime],
        seed: int = 0,
    ) -> None:
        super().__init__(transport, wall, server)
        self.namespace = namespace
        self.rng = random.Random(seed)
        self.journal = Journal()
        self.user = self.client("test-user")
        self._background: set[asyncio.Task[None]] = set()

    def start_operator(
        self,
        *,
        rules: Iterable[Any] = (),
        workers: int = 16,
        transport: Transport | None = None,
        kind: RayClusterKind | None = None,
        kinds: Sequence[Kind[Any]] = (),
        registry: CollectorRegistry | None = None,
        namespaces: Sequence[str] | None = None,
        identity: str = "",
        wall: Callable[[], datetime] | None = None,
        election: Election | None = None,
    ) -> RunningOperator:
        """Run one for these kinds; for RayClusters if none is given.

        It serves the world's namespace unless `namespaces` names others; none means all.
        """
        settings = Settings(
            namespaces=(self.namespace,) if namespaces is None else tuple(namespaces),
            workers=workers,
            metrics_address="",
            health_address="",
            identity=identity,
        )
        return self.run_operator(
            *(kinds or [kind or RayClusterKind()]),
            agent=OPERATOR,
            rng=random.Random(self.rng.random()),
            rules=rules,
            transport=transport,
            settings=settings,
            wall=wall,
            registry=registry,
            election=election,
        )

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the test; kept until it ends."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def create_cluster(self, name: str = "example", *, replicas: int = 2) -> RayCluster:
        body = example_cluster(name, replicas=replicas)
        return await self.user.create(RAYCLUSTERS, self.namespace, body)

    async def cluster(self, name: str = "example") -> RayCluster:
        return await self.user.get(RAYCLUSTERS, self.namespace, name)

    async def is_ready(self, name: str = "example") -> bool:
        return (await self.cluster(name)).status.get("state") == "ready"

    async def is_gone(self, name: str = "example") -> bool:
        try:
            await self.cluster(name)
        except NotFound:
            return not self.journal.present
        return False

    async def condition(self, kind: str = "Ready", name: str = "example") -> dict[str, Any]:
        """A condition of a cluster; one that it has not is empty."""
        conditions = (await self.cluster(name)).status.get("conditions") or ()
        nothing = {"status": "", "reason": "", "message": ""}
        return nothing | (find_condition(conditions, kind) or {})

    async def becomes(self, read: Callable[[], Awaitable[Any]], wanted: Any, **more: float) -> None:
        """Wait until what is read is equal to `wanted`, or fulfils it, as `eventually` does."""

        async def reached() -> bool:
            found = await read()
            return wanted(found) if callable(wanted) else found == wanted

        await self.eventually(reached, **more)

    async def says(self, reason: str, *words: str, seconds: float = 60.0) -> str:
        """The message of `Ready` once it is False for this reason and has all words."""

        async def message() -> str:
            ready = await self.condition()
            found = (ready["status"], ready["reason"]) == ("False", reason)
            return ready["message"] if found and all(x in ready["message"] for x in words) else ""

        return await self.eventually(message, seconds=seconds)

    async def events_about(self, kind: str, name: str, *awaited: str) -> list[tuple[str, str]]:
        """Reasons and notes of the events about an object, once all `awaited` reasons are there.

        An event is sent after the write that it tells of: who has seen the write waits for it.
        """
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        events: list[tuple[str, str]] = []

        async def all_are_told() -> bool:
            found = json.loads(await self.user.read_page(path, {}))
            events[:] = [
                (event["reason"], event.get("note", ""))
                for event in found["items"]
                if (event["regarding"]["kind"], event["regarding"]["name"]) == (kind, name)
            ]
            return {*awaited} <= {reason for reason, _ in events}

        await self.eventually(all_are_told)
        return events

    async def scale(self, replicas: int, name: str = "example") -> None:
        path = "/spec/workerGroupSpecs/0/replicas"
        await self.user.json_patch(
            RAYCLUSTERS, self.namespace, name, [{"op": "replace", "path": path, "value": replicas}]
        )


@asynccontextmanager
async def embedded_world(
    *,
    seed: int = 0,
    nodes: NodeSettings | None = None,
    node_rules: Iterable[Rule] = (),
    components: frozenset[str] = COMPONENTS,
) -> AsyncIterator[World]:
    """A world on an embedded API server of its own, in virtual time.

    `node_rules` are what goes wrong between it and the node components.
    """
    async with embedded_server(seed) as server:
        world = World(server, namespace="default", server=server, wall=virtual_wall, seed=seed)
        async with _inhabited(world, components, nodes or NodeSettings(), node_rules):
            yield world


@asynccontextmanager
async def real_world(
    kubeconfig: str,
    *,
    nodes: NodeSettings | None = None,
    components: frozenset[str] = frozenset({"kubelet"}),
    cleanup: bool = True,
) -> AsyncIterator[World]:
    """A world in a namespace of its own on the API server of `kubeconfig`, in real time."""
    credentials = await load_credentials(kubeconfig=kubeconfig, context=None)
    transport = HttpTransport(credentials, user_agent="manta-test")
    try:
        world = World(
            transport,
            namespace=f"t-{uuid.uuid4().hex[:8]}",
            server=None,
            wall=lambda: datetime.now(UTC),
            seed=random.randrange(1 << 30),
        )
        body = {"metadata": {"name": world.namespace}}
        await world.user.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", **body})
        # A real controller manager gives up nodes that are silent for 40 s.
        settings = nodes or NodeSettings(heartbeat=10.0)
        async with _inhabited(world, components, settings):
            yield world
            if cleanup:
                await world.user.delete(NAMESPACES, "", world.namespace)
    finally:
        await transport.aclose()


@asynccontextmanager
async def _inhabited(
    world: World, components: frozenset[str], nodes: NodeSettings, node_rules: Iterable[Rule] = ()
) -> AsyncIterator[None]:
    between = world.transport
    if rules := tuple(node_rules):
        between = FaultyTransport(between, rules, clock=world.loop)
    async with AsyncExitStack() as stack:
        await _install_definitions(world)
        await stack.enter_async_context(
            kept_running(
                lambda: run_nodes(
                    world.client("manta-nodes", between),
                    clock=world.loop,
                    wall=world.wall,
                    rng=random.Random(world.rng.random()),
                    settings=nodes,
                    components=components,
                )
            )
        )
        await stack.enter_async_context(_observed(world))
        yield


@asynccontextmanager
async def kept_running(run: Callable[[], AbstractAsyncContextManager[Any]]) -> AsyncIterator[None]:
    """Run something in the background, anew each time that a restored database has ended it."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def keep() -> None:
        while True:
            try:
                async with run():
                    if not ready.done():
                        ready.set_result(None)
                    await asyncio.get_running_loop().create_future()
            except* HistoryChanged:
                pass

    task = asyncio.create_task(keep())
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if task.done():
            await task
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _observed(world: World) -> AsyncIterator[None]:
    """Keep the journal of `world`; kill its operators at the end."""
    async with kept_running(lambda: _observer(world)):
        try:
            yield
        finally:
            await world.kill_operators()


@asynccontextmanager
async def _observer(world: World) -> AsyncIterator[None]:
    observer = SharedInformer(
        "observer",
        ResourceSource(world.client("observer"), PODS, world.namespace),
        Codec(Pod),
        clock=world.loop,
        rng=random.Random(1),
    )
    observer.add_handler(world.journal)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(observer.run())
        await observer.wait_for_sync()
        yield
        running.cancel()


@asynccontextmanager
async def neighbour(world: World, namespace: str) -> AsyncIterator[World]:
    """Another namespace on the API server of `world`, with a user and a journal of its own."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await world.user.create(NAMESPACES, "", body)
    beside = World(world.transport, namespace=namespace, server=world.server, wall=world.wall)
    async with _observed(beside):
        yield beside


_DEFINITIONS: dict[str, dict[str, Any]] = {}
"""By name as an embedded server has stored them: storing them costs as much as a cluster's life."""


async def _install_definitions(world: World) -> None:
    """Have the Ray kinds served; embedded servers are given what the first one has stored."""
    if world.server is None:
        await install_crds(world)
        return
    if not _DEFINITIONS:
        await install_crds(world)
        stored = world.server.store.table(str(CRDS)).items
        _DEFINITIONS.update({name: each.object for name, each in stored.items()})
        return
    for name, definition in _DEFINITIONS.items():
        metadata = definition["metadata"] | {"uid": new_uid(world.server.writer._rng)}
        world.server.store.put(str(CRDS), name, definition | {"metadata": metadata})


async def install_crds(world: World, *more: dict[str, Any]) -> None:
    """Have Manta's kinds served, and `more`, whoever installed them first."""
    definitions = (*custom_resource_definitions(), *more)
    for crd in definitions:
        if await _served(world, crd):
            continue  # to have it refused costs as much as to store it
        with suppress(AlreadyExists):
            await world.user.create(CRDS, "", crd)
    for crd in definitions:
        await world.eventually(lambda crd=crd: _served(world, crd))


async def _served(world: World, crd: dict[str, Any]) -> bool:
    spec = crd["spec"]
    (version,) = (each["name"] for each in spec["versions"] if each["storage"])
    path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
    try:
        await world.user.request_json("GET", path, query={"limit": "1"})
    except (NotFound, PathNotFound):
        return False
    return True


def measured_once(measure: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Remember what a coroutine function returned for the same arguments.

    Scenarios in virtual time are the same whenever they are played.
    """
    results: dict[tuple[Any, ...], Any] = {}

    @wraps(measure)
    async def measured(*arguments: Any) -> Any:
        if arguments not in results:
            results[arguments] = await measure(*arguments)
        return results[arguments]

    return measured
