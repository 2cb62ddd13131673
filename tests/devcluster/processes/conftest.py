"""An embedded API server with the process kubelet, in real time, and a user of both."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controller.kube.client import Client
from controller.kube.errors import NotFound
from controller.kube.resources import CONFIG_MAPS, SECRETS
from controller.testing.faults import FaultyTransport, Rule
from devcluster.apiserver import ApiServer
from devcluster.logs import ProcessLogs
from devcluster.nodes import NodeSettings, run_nodes
from devcluster.nodes.components import ComponentContext
from devcluster.processes.environment import Image, Images
from devcluster.processes.kubelet import ProcessKubelet
from devcluster.processes.output import Outputs
from devcluster.processes.specification import SPECIFIED_PODS, SpecifiedPod
from tests.devcluster.processes.plain import PlainIsolation

Json = dict[str, Any]
PYTHON = Image(Path(sys.prefix), command=("sh", "-c", "echo the image's own command"))


def wall() -> datetime:
    return datetime.now(UTC)


class World:
    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.get_running_loop()
        self.server = ApiServer(wall=wall, clock=self.loop, rng=random.Random(1))
        self.user = Client(self.server, user_agent="user", clock=self.loop)
        self.folder = folder
        self.rules: list[Rule] = []
        self.isolation = PlainIsolation(folder / "pods")
        self.isolation.root.mkdir()
        self.outputs = Outputs(wall)
        self.server.hooks.pod_log = ProcessLogs(self.server, self.outputs, wall)

    @asynccontextmanager
    async def node(self, **settings: Any) -> AsyncIterator[None]:
        usual = {"crash_back_off": 0.2, "crash_back_off_cap": 0.4, "image_back_off": 0.2}
        faulty = FaultyTransport(self.server, clock=self.loop)
        faulty.rules = list(self.rules)
        async with run_nodes(
            Client(faulty, user_agent="nodes", clock=self.loop),
            clock=self.loop,
            wall=wall,
            rng=random.Random(2),
            settings=NodeSettings(**usual | settings),
            kubelet=self._machine,
        ):
            yield

    def _machine(self, context: ComponentContext) -> ProcessKubelet:
        self.kubelet = ProcessKubelet(
            context,
            isolation=self.isolation,
            images=Images({"python": PYTHON}),
            outputs=self.outputs,
            root=self.folder,
            memory=self.folder / "memory",
        )
        return self.kubelet

    async def create(self, name: str, *containers: Json, **spec: Any) -> SpecifiedPod:
        """A pod that is never restarted, unless `spec` says otherwise."""
        spec.setdefault("restartPolicy", "Never")
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"app": name},
                "annotations": {"note": "said"},
                "finalizers": spec.pop("finalizers", []),
            },
            "spec": {"containers": list(containers), **spec},
        }
        return await self.user.create(SPECIFIED_PODS, "default", body)

    async def configure(self, name: str, **data: str) -> None:
        await self._store(CONFIG_MAPS, "ConfigMap", name, {"data": data})

    async def hide(self, name: str, **data: str) -> None:
        await self._store(SECRETS, "Secret", name, {"stringData": data})

    async def _store(self, resource: Any, kind: str, name: str, content: Json) -> None:
        meta = {"metadata": {"name": name, "namespace": "default"}}
        body = {"apiVersion": "v1", "kind": kind, **meta, **content}
        try:
            await self.user.get(resource, "default", name)
        except NotFound:
            await self.user.create(resource, "default", body)
        else:
            await self.user.merge_patch(resource, "default", name, content)

    async def pod(self, name: str) -> SpecifiedPod:
        return await self.user.get(SPECIFIED_PODS, "default", name)

    async def until(
        self, name: str, reached: Callable[[SpecifiedPod], Any], *, seconds: float = 60
    ) -> SpecifiedPod:
        """Watch the pod until `reached` gives something true; the pod as it was then."""
        table = self.server.store.table("pods")
        async with asyncio.timeout(seconds):
            while True:
                pod = await self.pod(name)
                if reached(pod):
                    return pod
                await table.next_change()

    async def phase(self, name: str, phase: str) -> SpecifiedPod:
        return await self.until(name, lambda pod: pod.status.phase == phase)

    def folder_of(self, pod: SpecifiedPod, volume: int = 0) -> Path:
        """The folder of an `emptyDir` of a pod."""
        return self.isolation.sandboxes[pod.metadata.uid].root / f"v{volume}"

    async def gone(self, name: str, *, seconds: float = 60) -> None:
        table = self.server.store.table("pods")
        async with asyncio.timeout(seconds):
            while f"default/{name}" in table.items:
                await table.next_change()

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.user.delete(SPECIFIED_PODS, "default", name, grace_seconds=grace)

    async def log(self, name: str, **query: str) -> str:
        path = SPECIFIED_PODS.path("default", name, "log")
        return await self.user.request_json("GET", path, query=query)

    async def events(self, name: str) -> list[tuple[str, str]]:
        for _ in range(20):
            await asyncio.sleep(0)
        answer = await self.user.request_json("GET", "/api/v1/namespaces/default/events")
        return [
            (event["reason"], event["message"])
            for event in answer["items"]
            if event["involvedObject"]["name"] == name
        ]


@pytest.fixture
async def world(tmp_path):
    opened = World(tmp_path)
    yield opened
    await opened.server.aclose()


def sh(script: str, *, name: str = "main", **more: Any) -> Json:
    return {"name": name, "image": "python:3", "command": ["sh", "-c", script], **more}
