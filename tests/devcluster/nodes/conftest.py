"""An embedded API server in virtual time, a user, and node components to be started."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from controller.kube.errors import NotFound
from controller.kube.resources import NODES, Resource
from controller.kube.transport import Request
from controller.testing.cluster import Cluster, embedded_server, virtual_wall
from controller.testing.faults import FaultyTransport, Rule
from devcluster.apiserver import ApiServer
from devcluster.nodes import COMPONENTS, NodeSettings, run_nodes
from devcluster.nodes.pods import PODS, KubeletPod


class Recorder:
    """Passes requests on; remembers writes with their bodies, and how many were under way."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.writes: list[tuple[str, str, Any]] = []
        self.reads: list[str] = []
        self.writing = 0
        self.most_writing = 0

    async def request(self, request: Request) -> Any:
        if request.method == "GET":
            self.reads.append(request.path)
            return await self._inner.request(request)
        body = msgspec.json.decode(request.body) if request.body else None
        self.writes.append((request.method, request.path, body))
        self.writing += 1
        self.most_writing = max(self.most_writing, self.writing)
        try:
            await asyncio.sleep(0.001)
            return await self._inner.request(request)
        finally:
            self.writing -= 1


class World(Cluster):
    def __init__(self, server: ApiServer) -> None:
        super().__init__(server, virtual_wall, server)
        self.recorder = Recorder(self.server)
        self.faulty = FaultyTransport(self.recorder, clock=self.loop)

    @property
    def now(self) -> float:
        return self.loop.time()

    @asynccontextmanager
    async def nodes(
        self, *components: str, rules: tuple[Rule, ...] = (), **settings: Any
    ) -> AsyncIterator[None]:
        """Run `components`, all unless some are named."""
        self.faulty.rules = list(rules)
        async with run_nodes(
            self.client("nodes", self.faulty),
            clock=self.loop,
            wall=self.wall,
            rng=random.Random(2),
            settings=NodeSettings(**settings),
            components=frozenset(components) or COMPONENTS,
        ):
            yield

    async def instruct(self, pod: str, outcome: str, *, exit_code: int = 1) -> None:
        """Annotate a running pod: its containers exit at once, with this outcome."""
        await self._annotate(
            PODS, pod, {"outcome": outcome, "fail-after": "0", "exit-code": str(exit_code)}
        )

    async def lose_node(self, name: str) -> None:
        await self._annotate(NODES, name, {"lost": "true"})

    async def restore_node(self, name: str) -> None:
        await self._annotate(NODES, name, {"lost": None})

    async def _annotate(self, resource: Any, name: str, values: Mapping[str, str | None]) -> None:
        annotations = {f"sim.manta.dev/{key}": value for key, value in values.items()}
        namespace = "default" if resource is PODS else ""
        patch = {"metadata": {"annotations": annotations}}
        await self.user.merge_patch(resource, namespace, name, patch)

    async def create_pod(
        self,
        name: str,
        *,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        owners: list[dict[str, Any]] | None = None,
        finalizers: list[str] | None = None,
        **spec: Any,
    ) -> KubeletPod:
        told = {f"sim.manta.dev/{key}": value for key, value in (annotations or {}).items()}
        spec.setdefault("containers", [{"name": "main", "image": "ray:1"}])
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": told,
                "labels": dict(labels or {}),
                "ownerReferences": owners or [],
                "finalizers": finalizers or [],
            },
            "spec": spec,
        }
        return await self.user.create(PODS, "default", body)

    async def pod(self, name: str) -> KubeletPod:
        return await self.user.get(PODS, "default", name)

    async def is_ready(self, name: str) -> bool:
        return (await self.pod(name)).status.is_true("Ready")

    async def is_gone(self, resource: Resource[Any], name: str, namespace: str = "default") -> bool:
        try:
            await self.user.get(resource, namespace if resource.namespaced else "", name)
        except NotFound:
            return True
        return False


@pytest.fixture
async def world() -> AsyncIterator[World]:
    with capture_logs() as logs:
        async with embedded_server() as server:
            world = World(server)
            yield world
    assert [entry for entry in logs if entry["event"] == "failed"] == []
    check_preconditions(world.recorder)


def check_preconditions(recorder: Recorder) -> None:
    """Nothing is deleted but by uid, nothing derived from a cache is written but by version."""
    for method, path, body in recorder.writes:
        if method == "DELETE":
            assert body["preconditions"]["uid"], path
        if method == "PATCH" and not path.startswith("/api/v1/nodes/"):
            metadata = body["metadata"]
            commanded = "annotations" in metadata  # by a test, through the kubelet
            assert commanded or (metadata["uid"] and metadata["resourceVersion"]), path
