"""A user who makes RayClusters, changes his mind about them, and breaks their pods."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes import ANNOTATION_PREFIX
from controller.kube.errors import KubeError
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS
from tests.integration.harness import example_cluster

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from tests.integration.harness import World

GROUPS = ("small", "large")
MOST_REPLICAS = 6


class User:
    """Does one random thing at a time to one random cluster.

    Attributes:
        said: what was done, for the report of a failure.
    """

    def __init__(self, world: World, names: list[str], rng: random.Random) -> None:
        self._world = world
        self.names = names
        self._rng = rng
        self.said: list[str] = []
        self._deeds: list[tuple[float, Callable[[str, dict[str, Any]], Awaitable[None]]]] = [
            (6, self._scale),
            (2, self._name_workers),
            (3, self._delete_pod),
            (3, self._fail_pod),
            (1, self._delete_service),
            (1, self._suspend_or_resume),
            (1, self._suspend_or_resume_group),
            (1, self._add_or_remove_group),
            (0.5, self._change_template),
            (1, self._delete),
            (0.5, self._replace),
        ]

    async def act(self) -> None:
        """Do something; what the server refuses does not matter."""
        name = self._rng.choice(self.names)
        try:
            present = await self._world.user.get_raw(RAYCLUSTERS, self._world.namespace, name)
        except KubeError:
            await self.create(name)
            return
        weights, deeds = zip(*self._deeds, strict=True)
        [deed] = self._rng.choices(deeds, weights)
        try:
            await deed(name, present)
        except KubeError as error:
            self.say(f"... refused: {error}")

    async def create(self, name: str) -> None:
        body = example_cluster(name)
        template = body["spec"]["workerGroupSpecs"][0]
        groups = self._rng.sample(GROUPS, self._rng.choice([1, 1, 2]))
        body["spec"]["workerGroupSpecs"] = [self._group(template, group) for group in groups]
        wanted = {g["groupName"]: g["replicas"] for g in body["spec"]["workerGroupSpecs"]}
        self.say(f"create {name} with {wanted}")
        await self._world.user.create(RAYCLUSTERS, self._world.namespace, body)

    def _group(self, template: dict[str, Any], name: str) -> dict[str, Any]:
        replicas = self._rng.randint(0, MOST_REPLICAS)
        return copy.deepcopy(template) | {"groupName": name, "replicas": replicas}

    async def _scale(self, name: str, present: dict[str, Any]) -> None:
        position = self._position(present)
        replicas = self._rng.randint(0, MOST_REPLICAS)
        group = present["spec"]["workerGroupSpecs"][position]
        self.say(f"scale {name}/{group['groupName']} {group['replicas']} -> {replicas}")
        await self._patch(name, (f"workerGroupSpecs/{position}/replicas", replicas))

    async def _name_workers(self, name: str, present: dict[str, Any]) -> None:
        """As an autoscaler does: fewer replicas, and which ones, at once; or just others."""
        position = self._position(present)
        group = present["spec"]["workerGroupSpecs"][position]
        pods = [p for p in await self._pods(name) if f"-{group['groupName']}-worker-" in p]
        victims = self._rng.sample(pods, min(len(pods), self._rng.randint(1, 2)))
        fewer = self._rng.choice([0, len(victims)])
        replicas = max(0, group["replicas"] - fewer)
        self.say(f"name {victims} of {name}, {group['replicas']} -> {replicas}")
        path, strategy = f"workerGroupSpecs/{position}", {"workersToDelete": victims}
        await self._patch(name, (f"{path}/replicas", replicas), (f"{path}/scaleStrategy", strategy))

    async def _delete_pod(self, name: str, _present: dict[str, Any]) -> None:
        pods = await self._pods(name)
        if pods:
            pod, grace = self._rng.choice(pods), self._rng.choice([None, None, 0])
            self.say(f"delete pod {pod}, grace {grace}")
            await self._world.user.delete(PODS, self._world.namespace, pod, grace_seconds=grace)

    async def _fail_pod(self, name: str, _present: dict[str, Any]) -> None:
        pods = await self._pods(name)
        if pods:
            pod = self._rng.choice(pods)
            self.say(f"fail pod {pod}")
            annotations = {
                ANNOTATION_PREFIX + "outcome": "fail",
                ANNOTATION_PREFIX + "fail-after": "0",
            }
            patch = {"metadata": {"annotations": annotations}}
            await self._world.user.merge_patch(PODS, self._world.namespace, pod, patch)

    async def _delete_service(self, name: str, _present: dict[str, Any]) -> None:
        self.say(f"delete service of {name}")
        await self._world.user.delete(SERVICES, self._world.namespace, f"{name}-head-svc")

    async def _suspend_or_resume(self, name: str, present: dict[str, Any]) -> None:
        suspend = not present["spec"].get("suspend")
        self.say(f"{name} suspend={suspend}")
        await self._patch(name, ("suspend", suspend))

    async def _suspend_or_resume_group(self, name: str, present: dict[str, Any]) -> None:
        position = self._position(present)
        suspend = not present["spec"]["workerGroupSpecs"][position].get("suspend")
        self.say(f"{name} group {position} suspend={suspend}")
        await self._patch(name, (f"workerGroupSpecs/{position}/suspend", suspend))

    async def _add_or_remove_group(self, name: str, present: dict[str, Any]) -> None:
        groups = present["spec"]["workerGroupSpecs"]
        missing = [g for g in GROUPS if g not in {group["groupName"] for group in groups}]
        if missing:
            groups = [*groups, self._group(_plain(groups[0]), missing[0])]
        else:
            groups = [self._rng.choice(groups)]
        wanted = {g["groupName"]: g["replicas"] for g in groups}
        self.say(f"{name} groups {wanted}")
        await self._patch(name, ("workerGroupSpecs", groups))

    async def _change_template(self, name: str, present: dict[str, Any]) -> None:
        position = self._position(present)
        image = f"rayproject/ray:2.{self._rng.randint(10, 99)}.0"
        self.say(f"{name} group {position} image {image}")
        path = f"workerGroupSpecs/{position}/template/spec/containers/0/image"
        await self._patch(name, (path, image))

    async def _delete(self, name: str, _present: dict[str, Any]) -> None:
        propagation = self._rng.choice(["Background", "Background", "Foreground"])
        self.say(f"delete {name}, {propagation}")
        await self._world.user.delete(
            RAYCLUSTERS, self._world.namespace, name, propagation=propagation
        )

    async def _replace(self, name: str, present: dict[str, Any]) -> None:
        await self._delete(name, present)
        await self.create(name)

    async def _patch(self, name: str, *changes: tuple[str, Any]) -> None:
        operations = [
            {"op": "add", "path": f"/spec/{path}", "value": value} for path, value in changes
        ]
        await self._world.user.json_patch(RAYCLUSTERS, self._world.namespace, name, operations)

    async def _pods(self, name: str) -> list[str]:
        selector = f"ray.io/cluster={name}"
        pods = await self._world.user.list(PODS, self._world.namespace, label_selector=selector)
        return sorted(pod.metadata.name for pod in pods.items)

    def _position(self, present: dict[str, Any]) -> int:
        return self._rng.randrange(len(present["spec"]["workerGroupSpecs"]))

    def say(self, what: str) -> None:
        self.said.append(f"{self._world.loop.time():8.3f} s  {what}")


def _plain(group: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in group.items() if k not in {"suspend", "scaleStrategy"}}
