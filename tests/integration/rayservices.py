"""RayServices on a world: simulated Serves behind the heads, and a client that counts failures."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import yaml

from controller.command.kinds import KindSettings, kinds_of
from controller.kube.errors import NotFound
from controller.kube.objects import Pod
from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES, RayService
from controller.ray.dashboard import Head
from controller.ray.dashboard.actors import DashboardActors
from controller.ray.settings import RaySettings
from devcluster.simulated_serve import SimulatedServe
from tests.integration.harness import EXAMPLES, RunningOperator, World, cluster_of, is_ready, role
from tests.ray.dashboard.simulated import Incarnation, SimulatedRay


def serve_config(greeting: str = "hi", *, replicas: int = 2) -> str:
    """A config with one application, as users write it."""
    return f"""
applications:
- name: hello
  import_path: hello:app
  route_prefix: /
  deployments:
  - name: Hello
    num_replicas: {replicas}
    user_config:
      greeting: {greeting}
"""


def service_manifest(name: str = "svc", **spec: Any) -> dict[str, Any]:
    """A RayService on a cluster of a head and one worker; None removes a field."""
    example = yaml.safe_load((EXAMPLES / "raycluster.yaml").read_text())
    cluster = copy.deepcopy(example["spec"])
    cluster["workerGroupSpecs"] = cluster["workerGroupSpecs"][:1]
    cluster["workerGroupSpecs"][0] |= {"replicas": 1, "minReplicas": 1, "maxReplicas": 3}
    head = cluster["headGroupSpec"]["template"]["spec"]["containers"][0]
    head["ports"] = [*head.get("ports", ()), {"name": "serve", "containerPort": 8000}]
    full = {"serveConfigV2": serve_config(), "rayClusterConfig": cluster} | spec
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": name},
        "spec": {key: value for key, value in full.items() if value is not None},
    }


def with_image(manifest: dict[str, Any], image: str) -> dict[str, Any]:
    """The manifest with another image of head and workers."""
    edited = copy.deepcopy(manifest)
    config = edited["spec"]["rayClusterConfig"]
    for group in (config["headGroupSpec"], *config["workerGroupSpecs"]):
        group["template"]["spec"]["containers"][0]["image"] = image
    return edited


class Services:
    """All RayServices of a world, and the Rays that serve them."""

    def __init__(
        self,
        world: World,
        settings: RaySettings | None = None,
        ray: type[SimulatedRay] = SimulatedRay,
    ) -> None:
        self.world = world
        self.settings = settings or RaySettings()
        epoch = world.wall() - timedelta(seconds=world.loop.time())
        self.ray = ray(live=self._live, nodes=self.nodes, epoch=epoch)

    def start_operator(
        self, *, clusters: RaySettings | None = None, **more: Any
    ) -> RunningOperator:
        self.actors = DashboardActors(
            self.ray.connect,
            clock=self.world.loop,
            wall=self.world.wall,
            rng=random.Random(self.world.rng.random()),
        )
        kinds = kinds_of(KindSettings(ray=clusters or self.settings), self.actors)
        return self.world.start_operator(kinds=kinds, **more)

    async def create(self, manifest: dict[str, Any] | None = None) -> RayService:
        body = manifest or service_manifest()
        return await self.world.user.create(RAYSERVICES, self.world.namespace, body)

    async def edit(self, manifest: dict[str, Any]) -> None:
        name = manifest["metadata"]["name"]
        operation = {"op": "replace", "path": "/spec", "value": manifest["spec"]}
        await self.world.user.json_patch(RAYSERVICES, self.world.namespace, name, [operation])

    async def patch(self, name: str = "svc", **spec: Any) -> None:
        await self.world.user.merge_patch(RAYSERVICES, self.world.namespace, name, {"spec": spec})

    async def service(self, name: str = "svc") -> RayService:
        return await self.world.user.get(RAYSERVICES, self.world.namespace, name)

    async def all(self) -> Sequence[RayService]:
        found = await self.world.user.list(RAYSERVICES, self.world.namespace)
        return found.items

    async def status(self, name: str = "svc") -> dict[str, Any]:
        return (await self.service(name)).status

    async def is_ready(self, name: str = "svc") -> bool:
        return condition(await self.status(name), "Ready") == "True"

    async def active(self, name: str = "svc") -> str:
        found = (await self.status(name)).get("activeServiceStatus") or {}
        return found.get("rayClusterName", "")

    async def pending(self, name: str = "svc") -> str:
        found = (await self.status(name)).get("pendingServiceStatus") or {}
        return found.get("rayClusterName", "")

    async def reaches(
        self, reached: Callable[[dict[str, Any]], Any], name: str = "svc", *, seconds: float = 180
    ) -> dict[str, Any]:
        """Wait until the status is as asked; the status then."""

        async def is_reached() -> bool:
            return bool(reached(await self.status(name)))

        try:
            await self.world.eventually(is_reached, seconds=seconds, pause=0.5)
        except AssertionError:
            status = await self.status(name)
            raise AssertionError(f"not reached within {seconds} s: {status}") from None
        return await self.status(name)

    async def deployed(
        self, manifest: dict[str, Any] | None = None, *, seconds: float = 180
    ) -> str:
        """Create a RayService and wait until it serves; the name of its cluster."""
        created = await self.create(manifest)
        return await self.serving(created.metadata.name, seconds=seconds)

    async def serving(self, name: str = "svc", *, seconds: float = 180) -> str:
        await self.reaches(_runs, name, seconds=seconds)
        return await self.active(name)

    async def taken_over(self, old: str, *, seconds: float = 180) -> str:
        def has_taken_over(status: dict[str, Any]) -> bool:
            active = status.get("activeServiceStatus") or {}
            return active.get("rayClusterName", "") not in {"", old}

        await self.reaches(has_taken_over, seconds=seconds)
        return await self.active()

    async def clusters(self) -> list[str]:
        found = await self.world.user.list(RAYCLUSTERS, self.world.namespace)
        return sorted(each.metadata.name for each in found.items)

    async def selected(self, name: str = "svc-serve-svc") -> str:
        try:
            found = await self.world.user.get(SERVICES, self.world.namespace, name)
        except NotFound:
            return ""
        return (found.spec.selector or {}).get("ray.io/cluster", "")

    def serve_of(self, cluster: str) -> SimulatedServe:
        """The Serve of the ready head of a cluster."""
        (pod,) = (pod for pod in self.heads() if cluster_of(pod) == cluster)
        return self.ray.serve(self._place(pod))

    def puts(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """The configs that each Serve was sent, with the uid of its cluster."""
        return [(place[0], serve.puts) for place, serve in self.ray.serves() if serve.puts]

    def told(self) -> list[list[str]]:
        """The greetings that each Serve was told, in order."""
        return [
            [put["applications"][0]["deployments"][0]["user_config"]["greeting"] for put in puts]
            for _, puts in self.puts()
        ]

    def heads(self) -> list[Pod]:
        return [pod for pod in self.world.journal.present.values() if role(pod) == "head"]

    async def ask_for_ever(self, failures: list[str]) -> None:
        """A client that asks twice a second through the stable service, and notes failures."""
        while True:
            await asyncio.sleep(0.5)
            cluster = await self.selected()
            if not self.serves(cluster):
                failures.append(f"{self.world.loop.time():.1f} s: nobody serves behind {cluster!r}")

    def serves(self, cluster: str) -> bool:
        """Whether a pod of the cluster answers requests."""
        present = self.world.journal.present.values()
        return any(self._serves(pod) for pod in present if cluster_of(pod) == cluster)

    def _serves(self, pod: Pod) -> bool:
        labelled = (pod.metadata.labels or {}).get("ray.io/serve") == "true"
        if not (labelled and is_ready(pod) and not pod.metadata.terminating):
            return False
        heads = [head for head in self.heads() if cluster_of(head) == cluster_of(pod)]
        running = (
            deployment.running(self.ray.now(), serve.starting)
            for head in heads
            for serve in [self.ray.serve(self._place(head))]
            for application in serve.applications.values()
            for deployment in application.deployments.values()
        )
        return any(running)

    def _live(self, head: Head) -> Incarnation | None:
        for pod in self.heads():
            owner = pod.metadata.controller
            if owner is not None and owner.uid == head.cluster_uid and is_ready(pod):
                return self._place(pod)
        return None

    def nodes(self, place: Incarnation) -> list[str]:
        """Addresses of the pods of a cluster that have a proxy of Serve."""
        pods = self.world.journal.present.values()
        return [
            pod.status.pod_ip
            for pod in pods
            if is_ready(pod) and pod.metadata.controller and pod.metadata.controller.uid == place[0]
        ]

    @staticmethod
    def _place(pod: Pod) -> Incarnation:
        owner, statuses = pod.metadata.controller, pod.status.container_statuses
        assert owner is not None
        return owner.uid, pod.metadata.uid, statuses[0].restart_count if statuses else 0


def condition(status: dict[str, Any], kind: str) -> str:
    for each in status.get("conditions", ()):
        if each["type"] == kind:
            return each["status"]
    return ""


def reason(status: dict[str, Any], kind: str) -> str:
    for each in status.get("conditions", ()):
        if each["type"] == kind:
            return each["reason"]
    return ""


def message(status: dict[str, Any], kind: str) -> str:
    for each in status.get("conditions", ()):
        if each["type"] == kind:
            return each["message"]
    return ""


@contextlib.asynccontextmanager
async def asked(services: Services, failures: list[str]) -> Any:
    """A client asks as long as the block runs."""
    task = asyncio.create_task(services.ask_for_ever(failures))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def live_and_die(services: Services) -> None:
    """A RayService's main ways: served, edited in place, upgraded, suspended, resumed, deleted."""
    world = services.world
    manifest = service_manifest(rayClusterDeletionDelaySeconds=1)
    first = await services.deployed(manifest)
    await services.patch(serveConfigV2=serve_config("hello"))
    await world.eventually(lambda: len(services.serve_of(first).puts) == 2, seconds=60)
    await services.edit(with_image(manifest, "rayproject/ray:2.53.0"))
    second = await services.taken_over(first)
    await world.becomes(services.clusters, [second], seconds=120)
    await services.patch(suspend=True)
    await services.reaches(lambda s: condition(s, "Suspended") == "True")
    await services.patch(suspend=False)
    await services.serving()
    await world.user.delete(RAYSERVICES, world.namespace, "svc")
    await world.becomes(
        services.clusters, lambda found: not world.journal.present and not found, seconds=120
    )


def _runs(status: dict[str, Any]) -> bool:
    return status.get("serviceStatus") == "Running"
