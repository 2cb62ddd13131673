"""Two tenants on one API server, and one operator of all kinds for both."""

from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest.mock import patch

from msgspec.structs import replace

from controller.command.kinds import KindSettings, kinds_of
from controller.command.operator import collect_orphans
from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.lookups.huggingface import WebReader, WorkspaceLookups
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, KubeError, NotFound, WriteUnconfirmed
from controller.kube.objects import KubeObject
from controller.kube.resources import NAMESPACES, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, FeatureGates
from controller.ray.api.feature_gates import CLUSTER_FLEET, MTLS, WORKLOAD_SCHEDULING, WORKSPACE
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.dashboard import Head
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.settings import CERT_MANAGER
from controller.testing.faults import EventFault, RequestFault, Rule
from devcluster.apiserver import ApiServer, StoredEvent
from devcluster.karpenter import node_claim_definition, node_name
from tests.fakes.karpenter.node_pools import node_class_definition, node_pool_definition
from tests.integration.harness import OPERATOR, RunningOperator, World, embedded_world, neighbour
from tests.integration.ray_nodes import RayNodesOfWorld
from tests.integration.rays import Rays
from tests.integration.rayservices import Services
from tests.integration.workspace_pools import PoolWorkspaces
from tests.integration.workspaces import Cloud, Workspaces, served
from tests.kaito.lookups.hub import FakeHub
from tests.kaito.workspace.given_pool import CLASSES

if TYPE_CHECKING:
    from tests.neighbours.kinds import Column, Manifest

Objects: TypeAlias = "Callable[[Resource[Any]], list[Manifest]]"

Reaction: TypeAlias = "Callable[[Client, StoredEvent], Awaitable[object]]"

CORE_EVENTS = Resource("", "v1", "events", "Event", KubeObject)
KAITO = (WORKSPACES, INFERENCE_SETS)
KINDS = (RAYCLUSTERS, RAYJOBS, RAYSERVICES, RAYCRONJOBS, RAYCLUSTERFLEETS, *KAITO)
SICK, WELL = "sick", "default"
READS_OF_CACHES = frozenset({"list", "watch"})


class Tenant:
    """A namespace, its user, and the simulated Rays of its clusters.

    Attributes:
        alter: changes the description of the cluster in whatever this tenant creates.
    """

    def __init__(self, world: World, street: Neighbourhood) -> None:
        self.world = world
        self.street = street
        self.column = street.column
        self.user = world.user
        self.namespace = world.namespace
        self.rays = Rays(world)
        self.ray = self.rays.ray
        self.ray.nodes = Services(world).nodes
        self.ray.pods = RayNodesOfWorld(world)
        self.alter: list[Callable[[Manifest], None]] = []
        self._foreign: set[str] = set()
        self.server.on_write.append(self._record_foreign)

    @property
    def server(self) -> ApiServer:
        assert self.world.server is not None
        return self.world.server

    # -- what its user does -------------------------------------------------------------------

    async def create(self, column: Column, name: str) -> None:
        with suppress(WriteUnconfirmed):  # it is there, and this client cannot decode it either
            await self.user.create(column.resource, self.namespace, self._manifest(column, name))

    async def edit(self, column: Column, name: str) -> None:
        """Edit an object, so that it has something to do."""
        assert column.edit is not None
        manifest = self._manifest(column, name)
        column.edit(manifest)
        operation = {"op": "replace", "path": "/spec", "value": manifest["spec"]}
        with suppress(WriteUnconfirmed):
            await self.user.json_patch(column.resource, self.namespace, name, [operation])

    def _manifest(self, column: Column, name: str) -> Manifest:
        manifest = column.manifest(name, self.street.right_time())
        for alter in self.alter:
            alter(column.cluster_spec(manifest))
        return manifest

    async def delete(self, column: Column, name: str) -> None:
        try:
            await self.user.delete(column.resource, self.namespace, name)
        except NotFound:
            return

    async def create_namespace(self) -> None:
        """Create the namespace anew once the old one is gone."""

        async def created() -> bool:
            meta = {"name": self.namespace}
            try:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
                await self.user.create(NAMESPACES, "", body)
            except AlreadyExists:
                return False
            return True

        await self.world.eventually(created)

    def is_well(self, column: Column, name: str) -> bool:
        """Whether this object has become what its user wants."""
        found = self.object(column, name)
        return found is not None and column.is_well(found, self.objects)

    def object(self, column: Column, name: str) -> Manifest | None:
        of_name = [o for o in self.objects(column.resource) if o["metadata"]["name"] == name]
        return of_name[0] if of_name else None

    def objects(self, resource: Resource[Any]) -> list[Manifest]:
        """All of its objects of one resource, without a request."""
        items = self.server.store.table(str(resource)).items
        prefix = f"{self.namespace}/"
        return [item.object for key, item in items.items() if key.startswith(prefix)]

    def uids(self) -> set[str]:
        """Return the uids of its objects of all resources that are named after it."""
        return {
            item.object["metadata"]["uid"]
            for table in self.server.store.tables.values()
            for key, item in table.items.items()
            if key.startswith(f"{self.namespace}/{self.namespace}-")
        }

    # -- what happens to it -------------------------------------------------------------------

    @contextmanager
    def disturbed(
        self,
        fault: RequestFault | EventFault,
        resource: str = "",
        *verbs: str,
        name: Callable[[str], bool] | None = None,
    ) -> Iterator[None]:
        """Apply `fault` to the operator's requests, or events, in this namespace."""
        rule = Rule(fault, resource, frozenset(verbs), name, namespace=self.namespace)
        with self.street.ruled(rule):
            yield

    @asynccontextmanager
    async def meanwhile(
        self, act: Callable[[], Awaitable[object]], *, every: float
    ) -> AsyncIterator[None]:
        """Do something every so many seconds; what the API server refuses is not done."""

        async def repeat() -> None:
            while True:
                with suppress(KubeError):
                    await act()
                await asyncio.sleep(every)

        task = asyncio.create_task(repeat())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def requiring(
        self, condition: Callable[[], bool], otherwise: str, *, within: float
    ) -> AsyncIterator[None]:
        """Report what is `otherwise`, unless the condition is met within so many seconds."""
        loop = self.world.loop

        async def watch() -> None:
            deadline = loop.time() + within
            while not condition():
                if loop.time() > deadline:
                    self.street.findings.append(f"{otherwise} within {within:.0f} s")
                    return
                await asyncio.sleep(1.0)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextmanager
    def reacting(self, resource: Resource[Any], react: Reaction) -> Iterator[None]:
        """Have another controller react to each change that is not its own."""
        server, user = self.server, self.world.client("another-controller")

        async def reacted(event: StoredEvent) -> None:
            with suppress(KubeError):
                await react(user, event)

        def on_write(event: StoredEvent) -> None:
            mine = event.key.startswith(f"{self.namespace}/")
            if event.table == str(resource) and event.type != "DELETED" and mine:
                self.street.strikes["reactions"] += 1
                self.world.background(reacted(event))

        self.street.strikes["reactions"] += 0
        server.on_write.append(on_write)
        try:
            yield
        finally:
            server.on_write.remove(on_write)

    @contextmanager
    def mutating(self, resource: str, change: Callable[[Manifest], object]) -> Iterator[None]:
        """Have a mutating webhook change what is created and updated, but for status."""
        writer = self.server.writer
        create, update = writer.create, writer.update

        def concerns(table: str, namespace: str) -> bool:
            return (table, namespace) == (resource, self.namespace)

        def changed(obj: Manifest) -> Manifest:
            before, obj = obj, copy.deepcopy(obj)
            change(obj)
            self.street.strikes["mutations"] += obj != before
            return obj

        def mutated_create(of: Any, namespace: str, obj: Manifest, *rest: Any, **more: Any) -> Any:
            wanted = changed(obj) if concerns(of.table, namespace) else obj
            return create(of, namespace, wanted, *rest, **more)

        def mutated_update(
            of: Any, namespace: str, name: str, edit: Any, *rest: Any, **more: Any
        ) -> Any:
            if concerns(of.table, namespace) and not more.get("subresource"):
                return update(of, namespace, name, lambda o: changed(edit(o)), *rest, **more)
            return update(of, namespace, name, edit, *rest, **more)

        self.street.strikes["mutations"] += 0
        with (
            patch.object(writer, "create", mutated_create),
            patch.object(writer, "update", mutated_update),
        ):
            yield

    @contextmanager
    def altered(self, alter: Callable[[Manifest], None]) -> Iterator[None]:
        """Have its user create objects with an altered description of their clusters."""
        self.alter.append(alter)
        try:
            yield
        finally:
            self.alter.remove(alter)

    @asynccontextmanager
    async def corrected(self) -> AsyncIterator[None]:
        """At the end its user corrects what is there, as a person would who has read the cause.

        What is edited is edited anew, what is created is deleted, to be created anew.
        """
        try:
            yield
        finally:
            correct = self.delete if self.column.edit is None else self.edit
            for each in self.objects(self.column.resource):
                await correct(self.column, each["metadata"]["name"])

    # -- what is seen of it -------------------------------------------------------------------

    def keys(self) -> int:
        return sum(len(self.objects(resource)) for resource in KINDS)

    def created_keys(self, since: int = 0) -> int:
        """How many of such objects the operator has created, those that are gone too."""
        kinds = {str(resource) for resource in KINDS}
        return sum(
            entry.attributes.verb == "create"
            and entry.attributes.namespace == self.namespace
            and entry.attributes.resource in kinds
            and entry.outcome == "201"
            for entry in self.street.operator.transport.journal.entries[since:]
        )

    def requests(self, since: int = 0) -> Counter[tuple[str, str]]:
        """The operator's requests about this namespace, by verb and resource.

        Those about objects without a namespace count as well, but for those of the other tenant.
        """
        unshared = self.column.unshared
        return Counter(
            (entry.attributes.verb, entry.attributes.resource)
            for entry in self.street.operator.transport.journal.entries[since:]
            if (
                entry.attributes.namespace == self.namespace
                or (
                    entry.attributes.resource in unshared
                    and entry.attributes.name not in self._foreign
                )
            )
            and entry.attributes.verb not in READS_OF_CACHES
        )

    def _record_foreign(self, event: StoredEvent) -> None:
        """Record the names of pools, of claims and of their nodes that are the other tenant's."""
        if event.table in {str(NODE_CLAIMS), str(NODE_POOLS)} and event.type == "ADDED":
            meta = event.current.object["metadata"]
            if meta["labels"].get(self.street.workspaces.namespace_label) != self.namespace:
                self._foreign |= {meta["name"], node_name(meta["name"])}

    def texts(self, kinds: frozenset[str]) -> list[str]:
        """What conditions, status and events of these kinds say."""
        said: list[str] = []
        for resource in KINDS:
            if resource.kind in kinds:
                for each in self.objects(resource):
                    said += _texts_of(each.get("status", {}))
        for event in self.objects(CORE_EVENTS):
            if event["involvedObject"]["kind"] in kinds:
                said.append(f"{event['reason']}: {event.get('message', '')}")
        return said


def _texts_of(status: Manifest) -> list[str]:
    found = [status, *status.get("conditions", [])]
    return [f"{each.get('reason', '')}: {each.get('message', '')}" for each in found]


class Neighbourhood:
    """A sick tenant, a healthy one, and the operator.

    Attributes:
        mtls_issuer: who issues certificates of clusters with mTLS.
        clock_error: turns the right time of day into what the operator takes for it.
        workspaces: the cloud from which Workspaces have their nodes.
        strikes: how often each means of a sickness had an effect, 0 if it never had.
        findings: what a course itself has seen that must not be.
    """

    def __init__(
        self, column: Column, world: World, beside: World, mtls_issuer: str = CERT_MANAGER
    ) -> None:
        self.column = column
        self.mtls_issuer = mtls_issuer
        self.world = world
        self.well = Tenant(world, self)
        self.sick = Tenant(beside, self)
        self.clock_error: Callable[[datetime], datetime] = lambda now: now
        self.right_time = world.wall
        world.wall = lambda: self.clock_error(self.right_time())
        spaces = PoolWorkspaces if column.has_pools else Workspaces
        self.workspaces = spaces(world, Cloud())
        self.hub = FakeHub()
        self.strikes: Counter[str] = Counter()
        self.findings: list[str] = []
        self.operator: RunningOperator

    async def open(self) -> None:
        self.start_operator()
        await self.world.eventually(lambda: not self.unready())

    def start_operator(self, rules: Sequence[Rule] = ()) -> None:
        actors = DashboardActors(
            lambda head: self._rays_of(head).connect(head),
            clock=self.world.loop,
            wall=self.world.wall,
            rng=random.Random(1),
        )
        self.actors = actors
        gates = FeatureGates(
            {CLUSTER_FLEET: True, MTLS: True, WORKLOAD_SCHEDULING: True, WORKSPACE: self.has_kaito}
        )
        hub: WebReader = self.hub  # type: ignore[assignment]
        lookups = WorkspaceLookups(self.world.client("lookups"), self.world.loop, hub)
        settings = KindSettings.from_environment(gates, {}, mtls_issuer=self.mtls_issuer)
        if self.workspaces.settings is not None:
            settings = replace(settings, kaito=self.workspaces.settings)
        kinds = kinds_of(settings, actors, lookups)
        self.operator = self.world.start_operator(kinds=kinds, rules=rules, namespaces=())
        if self.has_kaito:
            client = self.world.client(OPERATOR, self.operator.transport)
            collect_orphans(self.operator.operator, client, ())

    @property
    def has_kaito(self) -> bool:
        return self.column.resource in KAITO

    async def install_kaito(self) -> None:
        await self.workspaces.install(*kaito_definitions(), *self._definitions_of_the_cloud())

    def _definitions_of_the_cloud(self) -> tuple[Manifest, ...]:
        pools = (node_pool_definition(), node_class_definition(CLASSES))
        return (node_claim_definition(), *(pools if self.column.has_pools else ()))

    def _rays_of(self, head: Head) -> Any:
        return self.sick.ray if head.namespace == self.sick.namespace else self.well.ray

    @contextmanager
    def ruled(self, rule: Rule) -> Iterator[None]:
        """Have the operator's transport follow this rule, also after a restart."""
        self.operator.transport.rules.append(rule)
        try:
            yield
        finally:
            self.operator.transport.rules.remove(rule)
            self.strikes["requests and events"] += rule.seen

    def cut_watches(self) -> None:
        for watch in list(self.operator.transport._watches):
            watch.sever()

    async def restart_operator(self) -> None:
        rules = self.operator.transport.rules
        await self.operator.kill()
        self.start_operator(rules)

    def unready(self) -> list[str]:
        """Why `/readyz` fails, for each check that does."""
        if not self.operator.running:
            return ["the operator has ended"]
        checks = self.operator.operator.health.endpoints["readyz"]
        return [f"{name}: {why}" for name, check in checks.items() if (why := check())]


@asynccontextmanager
async def neighbourhood(
    column: Column, mtls_issuer: str = CERT_MANAGER
) -> AsyncIterator[Neighbourhood]:
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(embedded_world())
        beside = await stack.enter_async_context(neighbour(world, SICK))
        street = Neighbourhood(column, world, beside, mtls_issuer)
        if street.has_kaito:
            await street.install_kaito()
            await stack.enter_async_context(street.workspaces.provisioner())
            stack.enter_context(served(world))
        await street.open()
        yield street
