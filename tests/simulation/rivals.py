"""Other controllers that want something else of the same objects, each for a while."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from controller.kube.errors import KubeError
from controller.kube.resources import SERVICES, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import World
from tests.simulation import scenario as s

Object = dict[str, Any]

THEIRS = "theirs"
"""Value of the labels and selectors that they write."""

_RESOURCES: dict[str, tuple[Resource[Any], ...]] = {
    "labels": (SERVICES,),
    "service": (SERVICES,),
    "finalizers": (RAYCLUSTERS, RAYJOBS),
    "status": (RAYCLUSTERS,),
}


class RivalController:
    """Reacts to every change of the objects that it disputes until it is cancelled."""

    def __init__(self, world: World, rival: s.Rival) -> None:
        assert world.server is not None
        self._server = world.server
        self._client = world.client("rival")
        self._rival = rival
        self._tables = {str(resource): resource for resource in _RESOURCES[rival.what]}
        self._changed: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def run(self) -> None:
        """Dispute what is there, and then whatever changes."""
        for table in self._tables:
            for key in list(self._server.store.table(table).items):
                self._changed.put_nowait((table, key))
        self._server.on_write.append(self._saw)
        try:
            while True:
                table, key = await self._changed.get()
                await asyncio.sleep(self._rival.pause)
                await self._dispute(table, key)
        finally:
            self._server.on_write.remove(self._saw)

    def _saw(self, event: StoredEvent) -> None:
        if event.table in self._tables and event.type != "DELETED":
            self._changed.put_nowait((event.table, event.key))

    async def _dispute(self, table: str, key: str) -> None:
        item = self._server.store.table(table).items.get(key)
        patch = wanted(self._rival.what, item.object) if item else None
        if patch is None:
            return
        namespace, _, name = key.rpartition("/")
        subresource = "status" if "status" in patch else ""
        with suppress(KubeError):
            await self._client.merge_patch(
                self._tables[table], namespace, name, patch, subresource=subresource
            )


def wanted(what: str, obj: Object) -> Object | None:
    """The patch that makes an object what a rival wants; None if it is, or is not disputed."""
    meta = obj["metadata"]
    match what:
        case "labels" if _is_head_service(obj):
            if meta["labels"].get("ray.io/cluster") != THEIRS:
                return {"metadata": {"labels": {"ray.io/cluster": THEIRS}}}
        case "service" if _is_head_service(obj):
            if obj["spec"]["selector"].get("ray.io/node-type") != THEIRS:
                return {"spec": {"selector": {"ray.io/node-type": THEIRS}}}
        case "finalizers":
            others = [each for each in meta.get("finalizers", ()) if "ray.io" not in each]
            if others != meta.get("finalizers", []):
                revision = meta["resourceVersion"]
                return {"metadata": {"finalizers": others, "resourceVersion": revision}}
        case "status" if not meta.get("ownerReferences"):
            if obj.get("status", {}).get("state") == "ready":
                return {"status": {"state": "failed", "readyWorkerReplicas": 99}}
        case _:
            pass
    return None


def is_theirs(service: Object) -> bool:
    """Whether a service still is as a rival wanted it."""
    labels = service["metadata"].get("labels") or {}
    selector = service["spec"].get("selector") or {}
    return THEIRS in {*labels.values(), *selector.values()}


def _is_head_service(obj: Object) -> bool:
    return obj["metadata"]["name"].endswith("-head-svc") and "selector" in obj["spec"]
