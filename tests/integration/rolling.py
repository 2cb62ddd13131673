"""RayClusters with rolling updates on a world: simulated Rays, and a referee of the budget."""

from __future__ import annotations

import copy
import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS, RayCluster, labels
from controller.ray.cluster import RayClusterKind
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.pods.hashes import template_digest
from controller.ray.settings import RaySettings
from devcluster.apiserver.store import StoredEvent
from devcluster.simulated_ray import SimulatedNodes
from tests.integration.harness import RunningOperator, World, example_cluster
from tests.integration.ray_nodes import RayNodesOfWorld
from tests.integration.rays import Rays
from tests.ray.dashboard.simulated import incarnation

Json = dict[str, Any]
IMAGE = "rayproject/ray:2.60.0"
"""Of the version that the simulated Ray reports."""


def rolling_manifest(
    *groups: int, hosts: int = 1, fault_tolerant: bool = False, **settings: Any
) -> Json:
    """A cluster with a group of so many replicas each, and these settings of rolling updates."""
    manifest = example_cluster()
    spec = manifest["spec"]
    spec["rayVersion"] = "2.60.0"
    (template,) = spec["workerGroupSpecs"]
    spec["workerGroupSpecs"] = [
        copy.deepcopy(template)
        | {"groupName": f"group-{index}", "replicas": count, "minReplicas": 0, "maxReplicas": 99}
        | ({"numOfHosts": hosts} if hosts > 1 else {})
        for index, count in enumerate(groups)
    ]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["template"]["spec"]["containers"][0]["image"] = IMAGE
    if fault_tolerant:
        spec["gcsFaultToleranceOptions"] = {"redisAddress": "redis:6379"}
    spec["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": settings}
    return manifest


@dataclass
class Referee:
    """Watches every transition of the store, and holds the operator to the budget.

    Attributes:
        budgets: unavailable and surge by group, in pods.
        spared: pods that somebody else takes.
        most_lacking: groups that lacked available pods at the same time, at the most.
    """

    budgets: dict[str, tuple[int, int]]
    wrong: list[str] = field(default_factory=list)
    spared: set[str] = field(default_factory=set)
    most_lacking: int = 0
    _groups: dict[str, Json] = field(default_factory=dict)
    _pods: dict[str, Json] = field(default_factory=dict)
    _members: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __call__(self, event: StoredEvent) -> None:
        body = event.current.object
        if event.table == str(RAYCLUSTERS):
            suspended = body["spec"].get("suspend")
            self._groups = (
                {}
                if suspended
                else {each["groupName"]: each for each in body["spec"]["workerGroupSpecs"]}
            )
        elif event.table == str(PODS) and _group(body) in self.budgets:
            self._pod(event, body)

    def _pod(self, event: StoredEvent, body: Json) -> None:
        group, name = _group(body), body["metadata"]["name"]
        before = self._available(group)
        known = len(self._of(group))
        if event.type == "DELETED":
            self._pods.pop(name, None)
        else:
            self._pods[name] = body
            self._members[body["metadata"]["labels"].get(labels.REPLICA_NAME, "")].add(name)
        if group not in self._groups:
            return
        desired = self._desired(group)
        unavailable, surge = self.budgets[group]
        if event.type == "ADDED" and known + 1 > max(known, desired + surge):
            self.wrong.append(f"{known + 1} pods of {group}, desired {desired}")
        if _taken(body):
            lacking = sum(self._available(each) < self._desired(each) for each in self._groups)
            self.most_lacking = max(self.most_lacking, lacking)
        previous = event.previous.object if event.previous is not None else {}
        if _taken(body) and not _taken(previous) and name not in self.spared:
            after = self._available(group)
            if after < min(before, desired - unavailable):
                self.wrong.append(f"{after} of {desired} pods of {group} left when {name} is taken")
            is_of_use = _is_ready(previous or body) and self._is_whole(body)
            if self._is_current(body) and not _drains(body) and is_of_use:
                self.wrong.append(f"{name} was ready and up to date")

    def _desired(self, group: str) -> int:
        return self._groups[group]["replicas"] * self._groups[group].get("numOfHosts", 1)

    def _of(self, group: str) -> list[Json]:
        return [each for each in self._pods.values() if _group(each) == group]

    def _available(self, group: str) -> int:
        return sum(_is_ready(each) and not _taken(each) for each in self._of(group))

    def _is_whole(self, body: Json) -> bool:
        """Whether its replica has ever had all hosts; one that was begun by a dead process goes."""
        replica = body["metadata"]["labels"].get(labels.REPLICA_NAME)
        if replica is None:
            return True
        hosts = self._groups[_group(body)].get("numOfHosts", 1)
        return len(self._members[replica]) >= hosts

    def _is_current(self, body: Json) -> bool:
        annotations = body["metadata"].get("annotations") or {}
        wanted = str(template_digest(self._groups[_group(body)]))
        return annotations.get(labels.TEMPLATE_HASH) == wanted


def _group(body: Json) -> str:
    return (body["metadata"].get("labels") or {}).get(labels.GROUP, "")


def _drains(body: Json) -> bool:
    return labels.DRAINING_SINCE in (body["metadata"].get("annotations") or {})


def _taken(body: Json) -> bool:
    """Whether the pod is draining or being deleted."""
    return bool(body) and (_drains(body) or bool(body["metadata"].get("deletionTimestamp")))


def _is_ready(body: Json) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class RollingWorld:
    """A world with one cluster that is upgraded by rolling updates."""

    def __init__(self, world: World, manifest: Json, *, refereed: bool = True) -> None:
        self.world = world
        self.manifest = manifest
        self.rays = Rays(world)
        self.rays.ray.pods = RayNodesOfWorld(world)
        self.referee = Referee(dict(_budgets(manifest)) if refereed else {})
        if world.server is not None and refereed:
            world.server.on_write.append(self.referee)

    def start_operator(
        self, *, clusters: RaySettings | None = None, **more: Any
    ) -> RunningOperator:
        world = self.world
        actors = DashboardActors(
            self.rays.ray.connect,
            clock=world.loop,
            wall=world.wall,
            rng=random.Random(world.rng.random()),
        )
        own = actors.for_controller(RayClusterKind.name)
        return world.start_operator(kinds=[RayClusterKind(clusters, own, own)], **more)

    async def create(self) -> None:
        await self.world.user.create(RAYCLUSTERS, self.world.namespace, self.manifest)
        await self.world.eventually(self.world.is_ready, seconds=300, pause=0.5)

    async def edit(self, value: str, *groups: int, head: bool = False) -> None:
        """Set a variable of the pods of these groups, all if none is named."""
        spec = copy.deepcopy((await self.world.cluster()).spec)
        chosen = spec["workerGroupSpecs"]
        for group in [chosen[index] for index in groups] or chosen:
            set_variable(group, value)
        if head:
            set_variable(spec["headGroupSpec"], value)
        await self.patch(spec)

    async def patch(self, spec: Json) -> None:
        world = self.world
        await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", {"spec": spec})

    async def use_the_annotation(self) -> None:
        """Choose the strategy as one must where the definition refuses it in the specification."""
        world = self.world
        strategy = (await world.cluster()).spec["upgradeStrategy"]
        annotations = {labels.UPGRADE_STRATEGY: json.dumps(strategy)}
        patch = {"metadata": {"annotations": annotations}, "spec": {"upgradeStrategy": None}}
        await world.user.merge_patch(RAYCLUSTERS, world.namespace, "example", patch)
        await world.settle(30)

    async def settings(self, **settings: Any) -> None:
        await self.patch({"upgradeStrategy": {"rollingUpdate": settings}})

    async def condition(self, kind: str = "Upgrading") -> Json:
        return await self.world.condition(kind)

    async def is_complete(self) -> bool:
        """Whether the operator has seen the specification, and nothing is left to replace."""
        cluster = await self.world.cluster()
        seen = cluster.status.get("observedGeneration") == cluster.metadata.generation
        return seen and _condition(cluster, "Upgrading").get("reason") == "Complete"

    async def completes(self, seconds: float = 1200.0) -> None:
        try:
            await self.world.eventually(self.is_complete, seconds=seconds, pause=0.5)
        except AssertionError:
            raise AssertionError(f"{await self.condition()}") from None

    def nodes(self) -> SimulatedNodes:
        return self.rays.ray.nodes_of(incarnation(self.rays.head()))

    def workers(self) -> list[Pod]:
        return self.world.journal.workers()

    async def events(self, *awaited: str) -> list[str]:
        """Reasons of the events about the cluster, once all `awaited` are among them."""
        events = await self.world.events_about("RayCluster", "example", *awaited)
        return [reason for reason, _ in events]


def _condition(cluster: RayCluster, kind: str) -> Json:
    conditions = cluster.status.get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def _budgets(manifest: Json) -> Any:
    strategy = manifest["spec"].get("upgradeStrategy") or {}
    settings = strategy.get("rollingUpdate") or {}
    for group in manifest["spec"]["workerGroupSpecs"]:
        hosts = group.get("numOfHosts", 1)
        unavailable, surge = settings.get("maxUnavailable", 0), settings.get("maxSurge", 1)
        yield group["groupName"], (unavailable * hosts, surge * hosts)


def set_variable(group: Json, value: str) -> None:
    """Set the variable of a group's pods that tells the editions of its template apart."""
    container = group["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "EDITION", "value": value}]
