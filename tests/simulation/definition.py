"""A definition of RayClusters that lacks fields for a while."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from typing import Any

from controller.ray.api import RAYCLUSTERS
from tests.integration.definitions import restore_definition
from tests.integration.harness import World

Object = dict[str, Any]

UNTIL_WRITTEN_AGAIN = 2.0
"""Seconds between a definition that is complete again and what users write again."""

GROUPS = "spec.workerGroupSpecs"
HOSTS = "spec.workerGroupSpecs.numOfHosts"


class Definition:
    """The installed definition and what users had written before it dropped something.

    Attributes:
        pruned: how often each field is dropped at present, or is not yet back in the objects.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._specs: dict[str, Object] = {}  # by uid
        self.pruned: Counter[str] = Counter()

    async def drop(self, field: str) -> None:
        """Install one that lacks this field as well."""
        if not self.pruned.total():
            self._specs = {each["metadata"]["uid"]: each["spec"] for each in self._clusters()}
        self.pruned[field] += 1
        if self.pruned[field] == 1:
            await self._install()

    async def put_back(self, field: str) -> None:
        """Install one that has it, and write again what is lost of the specifications."""
        if self.pruned[field] == 1:
            await self._install(without=field)
            await asyncio.sleep(UNTIL_WRITTEN_AGAIN)
            for cluster in self._clusters():
                written = self._specs.get(cluster["metadata"]["uid"])
                if written is not None:
                    await self._write_again(cluster, completed(cluster["spec"], written, [field]))
        self.pruned[field] -= 1
        if not self.pruned[field]:
            del self.pruned[field]

    async def _install(self, without: str = "") -> None:
        fields = self.pruned.keys() - {without}
        if GROUPS in fields:
            fields -= {HOSTS}
        await restore_definition(self._world, without=sorted(fields))

    async def _write_again(self, cluster: Object, spec: Object) -> None:
        if spec != cluster["spec"]:
            meta, path = cluster["metadata"], "/spec/workerGroupSpecs"
            operation = {"op": "add", "path": path, "value": spec["workerGroupSpecs"]}
            await self._world.user.json_patch(
                RAYCLUSTERS, meta["namespace"], meta["name"], [operation]
            )

    def _clusters(self) -> list[Object]:
        assert self._world.server is not None
        return [item.object for _, item in self._world.server.store.table(str(RAYCLUSTERS)).now()]


def completed(spec: Object, written: Object, pruned: Collection[str]) -> Object:
    """A specification with what was written of the fields that were dropped, or have defaults."""
    before = written.get("workerGroupSpecs", [])
    groups = spec.get("workerGroupSpecs", before if GROUPS in pruned else [])
    if HOSTS in pruned:
        hosts = {group["groupName"]: group.get("numOfHosts", 1) for group in before}
        groups = [
            {**group, "numOfHosts": hosts.get(group["groupName"], group.get("numOfHosts", 1))}
            for group in groups
        ]
    return {**spec, "workerGroupSpecs": groups} if groups else spec
