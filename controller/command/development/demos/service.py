"""`manta demo --kind rayservice`: applications of real Ray Serve get new clusters without downtime.

Pods are processes of this machine; the operator is one too, and is killed in the middle of the
upgrade. A pod asks the applications up to 20 times a second. The exit status is 0 only if
no request failed, if each cluster got its own config only, and if nothing was left behind.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.command.development.demos.real_ray import OperatorProcess, demo_with_real_ray
from controller.command.development.demos.serve_client import Connections
from controller.command.development.demos.serve_manifest import (
    Put,
    PutRecorder,
    ServeManifest,
    read_manifest,
)
from controller.command.development.demos.steps import (
    DemoSummary,
    Step,
    background,
    follow_log,
    informer_for,
)
from controller.command.development.demos.traffic import CLIENT, Traffic, client_pod
from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.development.view import ServiceView
from controller.devcluster.gateway_api import GATEWAY_CLASSES
from controller.devcluster.nodes import NodeSettings
from controller.kube.resources import CONFIG_MAPS, PODS
from controller.ray.api import RAYCLUSTERS, custom_resource_definitions
from controller.ray.api.rayservice import RAYSERVICES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from pathlib import Path

    from controller.command.development.demos.real_ray import MachineOptions
    from controller.command.development.embedded_cluster import EmbeddedCluster
    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen
    from controller.kube.resources import Resource


NAMESPACE = "default"
_RESOURCES: dict[str, Resource[Any]] = {
    resource.kind: resource for resource in (CONFIG_MAPS, GATEWAY_CLASSES)
}
SERVE_PORT = 8000
_SECONDS = 900.0  # for each step: a small machine starts Ray slowly
_STEADY = 3  # seconds in which all answers are the same
_DOWN = 3.0  # seconds that the operator is dead


@dataclass(slots=True)
class ServiceDemoSummary(DemoSummary):
    """Observations of the client, of the clusters and of this machine."""

    traffic: Traffic
    puts: list[Put]

    def text(self) -> str:
        """Return the summary as plain lines."""
        puts = [put.text() for put in self.puts]
        counts = [*traffic_lines(self.traffic), *puts]
        return "\n".join([*self.steps.lines(), *counts, *self.verdict()])


def traffic_lines(traffic: Traffic) -> list[str]:
    """Return the counts of requests."""
    lines = [
        f"{f'answers of {version}':<28}{count:6}  {cluster}"
        for (version, cluster), count in traffic.by_version().items()
    ]
    lines.append(f"{'requests that failed':<28}{len(traffic.failures):6}")
    lines += [f"  {failure}" for failure in traffic.failures[:5]]
    lines.append(f"{'slowest answer':<28}{traffic.slowest:6.2f} s")
    return lines


async def service_demo(manifest: Path, machine: MachineOptions) -> int:
    """Run the demo and print its summary; returns the exit status.

    Args:
        manifest: a RayService whose applications answer as those of the example do.
        machine: the options of this machine.

    Raises:
        ConfigurationError: the manifest cannot be played with, or Ray cannot be installed.
    """
    documents = read_manifest(manifest)
    summary = ServiceDemoSummary(Traffic(), [])
    return await demo_with_real_ray(
        lambda node, screen: _play(documents, node, screen, summary), summary, machine
    )


async def _play(
    manifest: ServeManifest, node: ProcessNode, screen: Screen, summary: ServiceDemoSummary
) -> None:
    async with stage(manifest, node, screen, summary) as play:
        await play.create()
        await play.start_client()
        await play.upgrade()
        await play.change_one_application()
        await play.delete()
        play.check()


@asynccontextmanager
async def stage(
    manifest: ServeManifest, node: ProcessNode, screen: Screen, summary: ServiceDemoSummary
) -> AsyncGenerator[ServicePlay]:
    """Start everything, and stop it at the end."""
    view = ServiceView(manifest.name, screen, lambda: traffic_lines(summary.traffic))

    def saw_put(put: Put) -> None:
        summary.puts.append(put)
        view.show(put.text())

    async with (
        embedded_cluster(
            port=0, crds=custom_resource_definitions(), nodes=NodeSettings(), process_node=node
        ) as cluster,
        asyncio.TaskGroup() as tasks,
    ):
        PutRecorder(cluster.server, saw_put)
        operator = OperatorProcess(cluster, node)
        user = cluster.client("demo-user")
        informers = (
            informer_for(user, RAYSERVICES, view.saw_service),
            informer_for(user, RAYCLUSTERS, view.saw_cluster),
            informer_for(user, PODS, view.saw_pod),
        )
        async with background(tasks, *(one.run() for one in informers)), aclosing(operator):
            yield ServicePlay(manifest, node, screen, summary, view, cluster, operator, tasks)


@dataclass(slots=True)
class ServicePlay:
    """The steps of the demo."""

    manifest: ServeManifest
    node: ProcessNode
    screen: Screen
    summary: ServiceDemoSummary
    view: ServiceView
    cluster: EmbeddedCluster
    operator: OperatorProcess
    tasks: asyncio.TaskGroup
    first: str = ""
    second: str = ""

    def step(self, name: str) -> Step:
        """Return a step of the demo."""
        return Step(name, _SECONDS, self.screen, self.summary.steps)

    async def create(self) -> None:
        """Create the RayService and what it needs; the first cluster serves."""
        user = self.cluster.client("demo-user")
        async with self.step("created -> Ready"):
            self.screen.change(f"operator: process {await self.operator.start()}")
            for document in self.manifest.others:
                resource = _RESOURCES[document["kind"]]
                await user.create(resource, NAMESPACE if resource.namespaced else "", document)
            await user.create(RAYSERVICES, NAMESPACE, self.manifest.service)
            await self.view.until(lambda v: v.is_ready)
        self.first = self.view.active

    async def start_client(self) -> None:
        """Let a pod ask the applications."""
        user = self.cluster.client("demo-user")
        async with self.step("client asks -> answers of v1"):
            paths = list(self.manifest.routes.values())
            pod = client_pod(self.manifest.image, self._host, SERVE_PORT, paths)
            await user.create(PODS, NAMESPACE, pod)
            await self.view.until(lambda v: self._client in v.pods)
            self.tasks.create_task(self._follow())
            await self.answered(dict.fromkeys(self.manifest.routes, "v1"), self.first)
            await self._ask_from_here()

    async def upgrade(self) -> None:
        """Change image and config in one edit, and kill the operator in the middle of it."""
        async with self.step("image, config edited -> v2"):
            await self.edit(self.manifest.new_version("v2"))
            await self.view.until(lambda v: bool(v.pending) and len(v.clusters) == 2)
            self.second = self.view.pending
            await self.kill_operator()
            await self.view.until(lambda v: v.active == self.second and not v.pending)
            await self.answered(dict.fromkeys(self.manifest.routes, "v2"), self.second)
        async with self.step("-> old cluster deleted"):
            await self.view.until(lambda v: len(v.clusters) == 1)
            await self.settled()

    async def change_one_application(self) -> None:
        """Change the config of the last application; the replicas of the others keep running."""
        *_, last = self.manifest.routes
        async with self.step(f"config of {last} edited -> v3"):
            await self.edit(self.manifest.new_config("v2", {last: "v3"}))
            versions = dict.fromkeys(self.manifest.routes, "v2") | {last: "v3"}
            await self.answered(versions, self.second)

    async def delete(self) -> None:
        """End the client, and delete the RayService."""
        async with self.step("deleted -> nothing left"):
            await self.cluster.client("demo-user").delete(PODS, NAMESPACE, CLIENT)
            await self.view.until(lambda v: self._client not in v.pods)
            await self.remove()

    async def remove(self) -> None:
        """Delete the RayService; nothing of it is left."""
        user = self.cluster.client("demo-user")
        await user.delete(RAYSERVICES, NAMESPACE, self.manifest.name)
        await self.view.until(lambda v: not (v.service or v.clusters or v.pods))

    async def edit(self, spec: dict[str, Any]) -> None:
        """Replace the specification."""
        operation = {"op": "replace", "path": "/spec", "value": spec}
        user = self.cluster.client("demo-user")
        await user.json_patch(RAYSERVICES, NAMESPACE, self.manifest.name, [operation])

    async def kill_operator(self) -> None:
        """Kill the operator, and start another one some seconds later."""
        self.screen.change(f"operator killed: exit status {await self.operator.kill()}")
        await asyncio.sleep(_DOWN)
        self.screen.change(f"operator: process {await self.operator.start()}")

    def check(self) -> None:
        """Record violations."""
        self.summary.wrong += wrong_requests(self.summary.traffic)
        versions = {self.first: {"v1"}, self.second: {"v2", "v3"}}
        self.summary.wrong += wrong_configs(self.summary.puts, self.summary.traffic, versions)
        for path in list(self.manifest.routes.values())[:-1]:
            processes = self.summary.traffic.processes(path, self.second)
            if len(processes) != 1:
                self.summary.wrong.append(f"the replica of {path} changed: {sorted(processes)}")

    @property
    def _host(self) -> str:
        return f"{self.manifest.name}-serve-svc"

    @property
    def _client(self) -> str:
        return f"{NAMESPACE}/{CLIENT}"

    def saw_line(self, line: str) -> None:
        """Count what the client has printed."""
        second = self.summary.traffic.saw_line(line)
        for failure in second.failures:
            self.screen.change(f"request failed: {failure}")
        self.view.refresh()

    async def _follow(self) -> None:
        """Read what the client prints."""
        await self.view.until(lambda v: v.pod_is_ready(self._client))
        pod = self.view.pods[self._client]
        async for line in follow_log(self.cluster.server, pod, CLIENT):
            self.saw_line(line)

    async def answered(self, versions: dict[str, str], cluster: str) -> None:
        """Wait until all answers of some seconds are of these versions and of this cluster."""
        routes = self.manifest.routes
        wanted = {(routes[name], version, cluster) for name, version in versions.items()}
        await self.view.until(lambda _: self.summary.traffic.latest(_STEADY) == wanted)

    async def settled(self) -> None:
        """Wait for a few more seconds of answers."""
        seconds = len(self.summary.traffic.seconds) + _STEADY
        await self.view.until(lambda _: len(self.summary.traffic.seconds) >= seconds)

    async def _ask_from_here(self) -> None:
        """Say how this machine reaches the service, and try it."""
        address = self.node.service_address(NAMESPACE, self._host)
        path = next(iter(self.manifest.routes.values()))
        pods, here = f"http://{self._host}:{SERVE_PORT}", f"http://{address}:{SERVE_PORT}{path}"
        self.screen.change(f"pods ask {pods}; from this machine: curl {here}")
        with closing(Connections(address, SERVE_PORT)) as connections:
            _, version, cluster, _ = await connections.ask(path)
        self.screen.change(f"this machine asked {here}: {version} of {cluster}")


def wrong_requests(traffic: Traffic) -> list[str]:
    """Return sentences about requests that failed."""
    return [f"{len(traffic.failures)} requests failed"] if traffic.failures else []


def wrong_configs(
    puts: Sequence[Put], traffic: Traffic, versions: dict[str, set[str]]
) -> list[str]:
    """Return sentences about clusters that got, or answered with, another cluster's version.

    Args:
        puts: all PUTs.
        traffic: all answers.
        versions: what each cluster may have.
    """
    sent = [
        f"cluster {put.cluster} got {version}"
        for put in puts
        for version in sorted({*put.versions.values()} - versions.get(put.cluster, set()))
    ]
    answered = [
        f"cluster {cluster} answered with {version}"
        for version, cluster in traffic.by_version()
        if version not in versions.get(cluster, set())
    ]
    return [*sent, *answered]
