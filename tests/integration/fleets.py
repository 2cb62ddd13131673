"""RayClusterFleets in a world: what a user does, and a referee that watches the copies."""

from __future__ import annotations

import copy
import re
from typing import Any

from controller.kube.errors import NotFound
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS, RayClusterFleet
from controller.ray.cluster import RayClusterKind
from controller.ray.fleet import RayClusterFleetKind
from devcluster.apiserver import StoredEvent
from tests.integration.harness import RunningOperator, World, example_cluster

OLD, NEW, THIRD = ("rayproject/ray:2.52.0", "rayproject/ray:2.53.0", "rayproject/ray:2.54.0")
SCALES = Resource("manta.dev", "v1alpha1", RAYCLUSTERFLEETS.plural, "Scale", KubeObject)
COPY = re.compile(r"(?P<fleet>.+)-(?P<index>\d+)-\w{8}")


def fleet_manifest(
    name: str = "fleet", replicas: int = 3, image: str = OLD, **strategy: Any
) -> dict[str, Any]:
    """A fleet of clusters with a head and one worker each."""
    return {
        "apiVersion": "manta.dev/v1alpha1",
        "kind": "RayClusterFleet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
            "template": {"spec": cluster_of_image(image)},
        },
    }


def cluster_of_image(image: str) -> dict[str, Any]:
    spec = copy.deepcopy(example_cluster(replicas=1)["spec"])
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["template"]["spec"]["containers"][0]["image"] = image
    return spec


class Fleets:
    def __init__(self, world: World) -> None:
        self.world = world

    def start_operator(self, **more: Any) -> RunningOperator:
        kinds = [RayClusterKind(), RayClusterFleetKind()]
        return self.world.start_operator(kinds=kinds, **more)

    async def create(self, name: str = "fleet", replicas: int = 3, **strategy: Any) -> None:
        body = fleet_manifest(name, replicas, **strategy)
        await self.world.user.create(RAYCLUSTERFLEETS, self.world.namespace, body)

    async def patch(self, name: str = "fleet", **spec: Any) -> None:
        await self.world.user.merge_patch(
            RAYCLUSTERFLEETS, self.world.namespace, name, {"spec": spec}
        )

    async def scale(self, replicas: int, name: str = "fleet") -> None:
        await self.world.user.merge_patch(
            SCALES,
            self.world.namespace,
            name,
            {"spec": {"replicas": replicas}},
            subresource="scale",
        )

    async def use(self, image: str, name: str = "fleet") -> None:
        """Have the copies made from another image."""
        path, value = "/spec/template/spec", cluster_of_image(image)
        operation = {"op": "replace", "path": path, "value": value}
        await self.world.user.json_patch(RAYCLUSTERFLEETS, self.world.namespace, name, [operation])

    async def fleet(self, name: str = "fleet") -> RayClusterFleet:
        return await self.world.user.get(RAYCLUSTERFLEETS, self.world.namespace, name)

    async def condition(self, kind: str, name: str = "fleet") -> tuple[str, str, str]:
        for each in (await self.fleet(name)).status.get("conditions", ()):
            if each["type"] == kind:
                return each["status"], each["reason"], each["message"]
        return "", "", ""

    async def clusters(self) -> dict[str, dict[str, Any]]:
        found = await self.world.user.list(RAYCLUSTERS, self.world.namespace)
        return {
            each.metadata.name: {"uid": each.metadata.uid, "spec": each.spec, **each.status}
            for each in found.items
            if not each.metadata.terminating
        }

    async def images(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for name, cluster in sorted((await self.clusters()).items()):
            found.setdefault(index_of(name), []).append(image_of(cluster["spec"]))
        return found

    async def is_complete(self, image: str, count: int) -> bool:
        """Whether there are just so many copies, all of this image, and all is well."""
        try:
            settled = await self.condition("Ready"), await self.condition("Upgrading")
        except NotFound:
            return False
        states = tuple(each[0] for each in settled)
        images = await self.images()
        return states == ("True", "False") and images == {i: [image] for i in range(count)}

    async def completes(self, image: str, count: int = 3, *, seconds: float = 900) -> None:
        try:
            await self.world.eventually(
                lambda: self.is_complete(image, count), seconds=seconds, pause=1
            )
        except AssertionError:
            status = (await self.fleet()).status
            raise AssertionError(f"{await self.images()}: {status}") from None


def index_of(name: str) -> int:
    found = COPY.fullmatch(name)
    assert found is not None, name
    return int(found["index"])


def image_of(spec: dict[str, Any]) -> str:
    return spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]


class FleetReferee:
    """Checks the promises about one fleet's copies after every write to the store.

    It judges by the fleet as it is stored at that moment: how many copies are desired, how many may
    exist besides, and how many may be missing.

    Attributes:
        peak: the most copies that there were, those that are being deleted included.
    """

    def __init__(self) -> None:
        self.peak = 0
        self.violations: list[str] = []
        self._spec: dict[str, Any] = {}
        self._clusters: dict[str, dict[str, Any]] = {}
        self._created: set[str] = set()
        self._served: set[int] = set()

    @property
    def created(self) -> int:
        return len(self._created)

    def __call__(self, event: StoredEvent) -> None:
        body = event.current.object
        if event.table == str(RAYCLUSTERFLEETS):
            self._spec = body["spec"]
        elif event.table == str(RAYCLUSTERS):
            self._cluster(event, body)

    def _cluster(self, event: StoredEvent, cluster: dict[str, Any]) -> None:
        name, what = cluster["metadata"]["name"], f"{event.type} {cluster['metadata']['name']}"
        before = self._available()
        if event.type == "DELETED":
            self._clusters.pop(name, None)
        else:
            self._created.add(cluster["metadata"]["uid"])
            self._clusters[name] = cluster
        self.peak = max(self.peak, len(self._clusters))
        if event.type == "ADDED" and len(self._clusters) > self._desired + self._surge:
            self.violations.append(f"{what}: {len(self._clusters)} of {self._desired} copies exist")
        available, least = self._available(), self._desired - self._unavailable
        if available < min(before, least):
            self.violations.append(f"{what}: {available} of {self._desired} copies are ready")
        self._check_indexes(what)

    def _check_indexes(self, what: str) -> None:
        """Every index keeps a ready copy unless some may be missing, and has one of a template."""
        ready = {index_of(name) for name, each in self._clusters.items() if is_ready(each)}
        lost = {index for index in self._served if index < self._desired} - ready
        if len(lost) > self._unavailable:
            self.violations.append(f"{what}: no copy is ready for {sorted(lost)}")
        self._served |= ready
        for index in range(self._desired):
            images = [
                image_of(each["spec"])
                for name, each in self._clusters.items()
                if index_of(name) == index and "deletionTimestamp" not in each["metadata"]
            ]
            if len(images) != len(set(images)):
                self.violations.append(f"{what}: two copies of one template for index {index}")

    def _available(self) -> int:
        """How many copies of the desired indexes are ready."""
        return sum(
            is_ready(each) and index_of(name) < self._desired
            for name, each in self._clusters.items()
        )

    @property
    def _desired(self) -> int:
        return self._spec["replicas"]

    @property
    def _surge(self) -> int:
        return self._strategy.get("maxSurge", 1)

    @property
    def _unavailable(self) -> int:
        return self._strategy.get("maxUnavailable", 0)

    @property
    def _strategy(self) -> dict[str, Any]:
        return self._spec.get("strategy") or {}


def is_ready(cluster: dict[str, Any]) -> bool:
    conditions = cluster.get("status", {}).get("conditions", ())
    is_leaving = "deletionTimestamp" in cluster["metadata"]
    return not is_leaving and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )
