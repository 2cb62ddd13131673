"""Workspaces in a world: what a user does, a simulated cloud, and a referee over the claims."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from controller.kaito.api import labels
from controller.kaito.api.definitions import workspace_definition
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.karpenter import NODE_CLAIMS, NodeClaim
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kube.errors import KubeError, NotFound, PathNotFound
from controller.kube.objects import StatefulSet
from controller.kube.resources import CRDS, STATEFUL_SETS, Resource
from devcluster.apiserver import StoredEvent
from devcluster.karpenter import (
    ClaimBehaviour,
    ProvisionedClaim,
    SimulatedProvisioner,
    node_claim_definition,
)
from devcluster.nodes import run_nodes
from devcluster.nodes.components import Component, ComponentContext
from tests.integration.harness import RunningOperator, World, install_crds, kept_running
from tests.kaito.support import inference

INSTANCE = "Standard_NC24ads_A100_v4"
CLAIMS = str(NODE_CLAIMS)


def manifest(name: str = "phi", count: int = 1, **changes: Any) -> dict[str, Any]:
    """A Workspace; one of several nodes has a template, whose number of nodes is not estimated."""
    template = {"spec": {"containers": [{"name": "server", "image": "example.com/server:1"}]}}
    return {
        "apiVersion": "kaito.sh/v1beta1",
        "kind": "Workspace",
        "metadata": {"name": name},
        "resource": {
            "count": count,
            "instanceType": INSTANCE,
            "labelSelector": {"matchLabels": {"apps": name}},
        },
        "inference": inference() if count == 1 else {"template": template},
        **changes,
    }


def workspace_of(marks: Mapping[str, str]) -> str:
    """The name of the Workspace for which a claim was made, with or without a NodePool."""
    return marks.get(labels.WORKSPACE) or marks.get(labels.POOL_WORKSPACE, "")


class ClaimReferee:
    """Counts what happens to claims at every write to the store.

    Attributes:
        most: the most that a Workspace had at a time.
        times: when claims were created, in seconds of the running loop.
    """

    def __init__(self) -> None:
        self.created: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.times: list[float] = []
        self._present: dict[str, str] = {}
        self._known: dict[str, str] = {}
        self._marked: set[str] = set()

    def __call__(self, event: StoredEvent) -> None:
        if event.table != CLAIMS:
            return
        metadata = event.current.object["metadata"]
        uid = metadata["uid"]
        workspace = self._known.get(uid)
        if workspace is None:  # a claim may lose its labels later
            workspace = self._known[uid] = workspace_of(metadata.get("labels", {}))
            self.created[workspace] += 1
            self.times.append(asyncio.get_running_loop().time())
        if "deletionTimestamp" in metadata and uid not in self._marked:
            self._marked.add(uid)
            self.deleted[workspace] += 1
        if event.type == "DELETED":
            self._present.pop(uid, None)
        else:
            self._present[uid] = workspace
        now = sum(each == workspace for each in self._present.values())
        self.most[workspace] = max(self.most[workspace], now)


@dataclass
class Cloud:
    """What becomes of claims; `of` may say so for each claim, by the order of its creation.

    Attributes:
        behaviour: of all claims for which `of` says nothing.
        of: takes the name of the Workspace and how many claims it had before.
        namespace: of the Workspaces of which `of` tells; empty for all.
    """

    behaviour: ClaimBehaviour = field(default_factory=ClaimBehaviour)
    of: Callable[[str, int], ClaimBehaviour | None] = lambda _workspace, _number: None
    namespace: str = ""
    _numbers: dict[str, int] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, claim: ProvisionedClaim) -> ClaimBehaviour:
        marks = claim.metadata.labels or {}
        if self.namespace not in {"", marks.get(labels.WORKSPACE_NAMESPACE)}:
            return self.behaviour
        workspace = workspace_of(marks)
        number = self._numbers.get(claim.metadata.uid)
        if number is None:
            number = self._numbers[claim.metadata.uid] = self._counts[workspace]
            self._counts[workspace] += 1
        return self.of(workspace, number) or self.behaviour


class Workspaces:
    served: tuple[Resource[Any], ...] = (WORKSPACES, NODE_CLAIMS, INFERENCE_SETS)
    settings: KaitoOptions | None = None
    claim_label = labels.WORKSPACE
    namespace_label = labels.WORKSPACE_NAMESPACE

    def __init__(self, world: World, cloud: Cloud | None = None) -> None:
        self.world = world
        self.cloud = cloud or Cloud()
        self.referee = ClaimReferee()
        if world.server is not None:
            world.server.on_write.append(self.referee)

    async def install(self, *definitions: dict[str, Any]) -> None:
        wanted = definitions or (workspace_definition(), node_claim_definition())
        await install_crds(self.world, *wanted)
        await self.world.eventually(lambda: self._are_served(*wanted))

    async def _are_served(self, *wanted: dict[str, Any]) -> bool:
        for each in wanted:
            resource = next(r for r in self.served if str(r) == _name(each))
            try:
                await self.world.user.list(resource, "", limit=1)
            except (NotFound, PathNotFound):
                return False
        return True

    async def uninstall_claims(self) -> None:
        await self.world.user.delete(CRDS, "", CLAIMS)

    @asynccontextmanager
    async def provisioner(self) -> AsyncIterator[None]:
        async with kept_running(
            lambda: run_nodes(
                self.world.client("provisioner"),
                clock=self.world.loop,
                wall=self.world.wall,
                rng=random.Random(3),
                components=frozenset(),
                others=self.components(),
            )
        ):
            yield

    def components(self) -> list[Callable[[ComponentContext], Component]]:
        return [lambda context: SimulatedProvisioner(context, self.cloud)]

    def start_operator(self, settings: KaitoOptions | None = None, **more: Any) -> RunningOperator:
        return self.world.start_operator(kinds=[WorkspaceKind(settings or self.settings)], **more)

    async def create(self, name: str = "phi", count: int = 1, **changes: Any) -> Workspace:
        body = manifest(name, count, **changes)
        return await self.world.user.create(WORKSPACES, self.world.namespace, body)

    async def delete(self, name: str = "phi") -> None:
        await self.world.user.delete(WORKSPACES, self.world.namespace, name)

    async def workspace(self, name: str = "phi") -> Workspace:
        return await self.world.user.get(WORKSPACES, self.world.namespace, name)

    async def claims(self, name: str = "phi") -> list[NodeClaim]:
        selector = f"{self.claim_label}={name},{self.namespace_label}={self.world.namespace}"
        return (await self.world.user.list(NODE_CLAIMS, "", label_selector=selector)).items

    async def server(self, name: str = "phi") -> StatefulSet:
        return await self.world.user.get(STATEFUL_SETS, self.world.namespace, name)

    async def condition(self, type_: str, name: str = "phi") -> tuple[str, str, str]:
        for each in (await self.workspace(name)).status.get("conditions", ()):
            if each["type"] == type_:
                return each["status"], each["reason"], each["message"]
        return "", "", ""

    async def has(self, type_: str, status: str, reason: str, name: str = "phi") -> bool:
        return (await self.condition(type_, name))[:2] == (status, reason)

    async def reaches(
        self, type_: str, status: str, reason: str, name: str = "phi", *, seconds: float = 120
    ) -> None:
        try:
            await self.world.eventually(
                lambda: self.has(type_, status, reason, name), seconds=seconds, pause=0.2
            )
        except AssertionError:
            found = (await self.workspace(name)).status
            raise AssertionError(f"{type_} is not {status} {reason}: {found}") from None

    async def has_nodes(self, name: str = "phi", *, seconds: float = 120) -> None:
        await self.reaches(
            "ResourceReady", "True", "workspaceResourceStatusSuccess", name, seconds=seconds
        )

    async def is_gone(self, name: str = "phi") -> bool:
        try:
            await self.workspace(name)
        except NotFound:
            return True
        return False


@contextmanager
def served(world: World, *, after: float = 1.0) -> Iterator[None]:
    """Have every model server become ready so many seconds after it is written."""
    server, kubelet = world.server, world.client("model-servers")
    assert server is not None

    async def become_ready(namespace: str, name: str, replicas: int) -> None:
        await asyncio.sleep(after)
        status = {"status": {"replicas": replicas, "readyReplicas": replicas}}
        with suppress(KubeError):
            await kubelet.merge_patch(STATEFUL_SETS, namespace, name, status, subresource="status")

    def on_write(event: StoredEvent) -> None:
        found = event.current.object
        if event.table != str(STATEFUL_SETS) or event.type == "DELETED":
            return
        wanted = found["spec"].get("replicas", 1)
        if found.get("status", {}).get("readyReplicas") != wanted:
            world.background(become_ready(*event.key.split("/"), wanted))

    server.on_write.append(on_write)
    try:
        yield
    finally:
        server.on_write.remove(on_write)


async def provisioned(workspaces: Workspaces) -> None:
    """Have claims become nodes, and model servers ready, until cancelled."""
    with served(workspaces.world):
        async with workspaces.provisioner():
            await asyncio.Event().wait()


def _name(definition: dict[str, Any]) -> str:
    return definition["metadata"]["name"]


@asynccontextmanager
async def opened(world: World, cloud: Cloud | None = None) -> AsyncIterator[Workspaces]:
    workspaces = Workspaces(world, cloud)
    await workspaces.install()
    async with workspaces.provisioner():
        yield workspaces
