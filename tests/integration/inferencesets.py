"""InferenceSets in a world: what a user does, servers that become ready, and a referee."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.inferenceset import INFERENCE_SETS, InferenceSet
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.inferenceset.kind import InferenceSetKind
from controller.kube.errors import Conflict, NotFound
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from devcluster.apiserver import StoredEvent
from tests.integration.harness import RunningOperator, World, install_crds
from tests.integration.workspaces import INSTANCE
from tests.kaito.support import inference

SCALES = Resource("kaito.sh", "v1beta1", INFERENCE_SETS.plural, "Scale", KubeObject)
SUCCEEDED = {
    "type": "WorkspaceSucceeded",
    "status": "True",
    "reason": "workspaceSucceeded",
    "message": "workspace succeeds",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
READY = {"conditions": [SUCCEEDED]}


def set_manifest(name: str = "models", replicas: int = 2, **metadata: Any) -> dict[str, Any]:
    """A set of Workspaces with a preset."""
    return {
        "apiVersion": INFERENCE_SETS.api_version,
        "kind": INFERENCE_SETS.kind,
        "metadata": {"name": name, **metadata},
        "spec": {
            "replicas": replicas,
            "labelSelector": {"matchLabels": {"apps": name}},
            "template": {"resource": {"instanceType": INSTANCE}, "inference": inference()},
        },
    }


class ReplicaReferee:
    """Counts the Workspaces after every write to the store.

    Attributes:
        desired: how many the newest set asks for.
    """

    def __init__(self) -> None:
        self.created = 0
        self.deleted = 0
        self.desired = 0
        self.violations: list[str] = []
        self._present: set[str] = set()
        self._marked: set[str] = set()

    def __call__(self, event: StoredEvent) -> None:
        found = event.current.object
        if event.table == str(INFERENCE_SETS):
            self.desired = found["spec"].get("replicas", self.desired)
        elif event.table == str(WORKSPACES):
            self._saw(found["metadata"], is_gone=event.type == "DELETED")

    def _saw(self, metadata: dict[str, Any], *, is_gone: bool) -> None:
        uid = metadata["uid"]
        if is_gone or "deletionTimestamp" in metadata:
            self.deleted += uid not in self._marked
            self._marked.add(uid)
        if is_gone:
            self._present.discard(uid)
        elif uid not in self._present:
            self._present.add(uid)
            self.created += 1
            if len(self._present) > self.desired:
                self.violations.append(f"{len(self._present)} of {self.desired} at {self.created}")


class InferenceSets:
    def __init__(self, world: World) -> None:
        self.world = world
        self.referee = ReplicaReferee()
        if world.server is not None:
            world.server.on_write.append(self.referee)

    def start_operator(self, settings: KaitoOptions | None = None, **more: Any) -> RunningOperator:
        return self.world.start_operator(kinds=[InferenceSetKind(settings)], **more)

    async def create(self, name: str = "models", replicas: int = 2, **metadata: Any) -> None:
        body = set_manifest(name, replicas, **metadata)
        await self.world.user.create(INFERENCE_SETS, self.world.namespace, body)

    async def scale(self, replicas: int, name: str = "models") -> None:
        await self.world.user.merge_patch(
            SCALES,
            self.world.namespace,
            name,
            {"spec": {"replicas": replicas}},
            subresource="scale",
        )

    async def delete(self, name: str = "models") -> None:
        await self.world.user.delete(INFERENCE_SETS, self.world.namespace, name)

    async def get(self, name: str = "models") -> InferenceSet:
        return await self.world.user.get(INFERENCE_SETS, self.world.namespace, name)

    async def workspaces(self) -> list[Workspace]:
        return (await self.world.user.list(WORKSPACES, self.world.namespace)).items

    async def condition(self, name: str = "models") -> tuple[str, str, str]:
        for each in (await self.get(name)).status.get("conditions", ()):
            if each["type"] == "InferenceSetReady":
                return each["status"], each["reason"], each["message"]
        return "", "", ""

    async def serves(self, replicas: int, *, seconds: float = 900) -> None:
        """Wait until there are just so many Workspaces, and the status says that all serve."""

        async def is_done() -> bool:
            found = await self.get()
            present = await self.workspaces()
            is_ready = (await self.condition())[0] == "True"
            return is_ready and found.status["readyReplicas"] == replicas == len(present)

        await self.world.eventually(is_done, seconds=seconds, pause=1)

    async def are_gone(self, *, seconds: float = 900) -> None:
        await self.world.becomes(self.workspaces, lambda found: not found, seconds=seconds, pause=1)

    async def serve(self) -> None:
        """Make every Workspace ready, as its controller does once its model is loaded."""
        while True:
            for each in await self.workspaces():
                meta = each.metadata
                if not each.status and not meta.terminating:
                    try:
                        await self.world.user.merge_patch(
                            *(WORKSPACES, meta.namespace, meta.name, {"status": READY}),
                            subresource="status",
                        )
                    except (Conflict, NotFound):
                        continue
            await asyncio.sleep(1)


@asynccontextmanager
async def served(world: World) -> AsyncGenerator[InferenceSets]:
    """A world with Kaito's definitions, whose Workspaces become ready."""
    await install_crds(world, *kaito_definitions())
    sets = InferenceSets(world)
    task = asyncio.create_task(sets.serve())
    try:
        yield sets
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
