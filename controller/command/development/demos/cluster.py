"""`manta demo`: a RayCluster becomes ready, grows, shrinks and is deleted, in one process.

An embedded API server and a simulated node replace Kubernetes; the operator is the real one and
speaks HTTP to the server. The exit status is 0 only if every step was reached and no surplus pod
was ever created.
"""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from controller.command.development.demos.steps import Step, StepFailed, Steps, failure_text
from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.development.view import ClusterView, ObjectHandler, Screen, screen_for
from controller.command.manifests import load
from controller.command.run.operator import operator_for
from controller.devcluster.nodes import NodeSettings
from controller.kube.errors import ConfigurationError, KubeError
from controller.kube.resources import PODS
from controller.kube.source import ResourceSource
from controller.ray.api import RAYCLUSTERS, custom_resource_definitions
from controller.runtime.logs import configure_logging
from controller.runtime.settings import Settings
from informers import Codec, SharedInformer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from controller.command.development.embedded_cluster import EmbeddedCluster
    from controller.devcluster.apiserver import StoredEvent
    from controller.kube.client import Client

NAMESPACE = "default"
OPERATOR = "manta-operator"
STEP_SECONDS = 30.0
_NODES = NodeSettings(start_delay=0.3, ready_delay=0.4, termination_delay=0.3)


class _Group(msgspec.Struct):
    replicas: int = 0


class _Spec(msgspec.Struct, rename="camel"):
    worker_group_specs: list[_Group] = msgspec.field(default_factory=list[_Group])


class _Named(msgspec.Struct):
    name: str


class _Scalable(msgspec.Struct):
    """The part of a manifest that the demo reads."""

    metadata: _Named
    spec: _Spec


@dataclass(slots=True)
class ClusterDemoSummary:
    """Measurements of the demo: seconds for each step, pods wanted and created, writes."""

    steps: Steps = field(default_factory=Steps)
    pods_wanted: int = 0
    pods_made: int = 0
    writes: dict[str, int] = field(default_factory=dict[str, int])
    failed: str = ""

    @property
    def surplus(self) -> int:
        """Pods created beyond those asked for."""
        return self.pods_made - self.pods_wanted

    def text(self) -> str:
        """Return the summary as plain lines."""
        total = sum(self.writes.values())
        lines = [*self.steps.lines(), f"{'writes made':<28}{total:6}"]
        lines += [f"  {name:<26}{count:6}" for name, count in sorted(self.writes.items())]
        objects = self.pods_made + 1
        lines.append(f"{'writes per object':<28}{total / objects:6.2f}")
        lines.append(f"surplus pods: {self.surplus}")
        lines.append(f"FAILED: {self.failed}" if self.failed else "everything worked")
        return "\n".join(lines)


async def cluster_demo(manifest: Path) -> int:
    """Run the demo and print its summary; returns the exit status.

    Raises:
        ConfigurationError: the manifest holds no RayCluster that can be scaled.
    """
    documents = load(manifest)
    _check(documents, manifest)
    configure_logging(level="error", format="console")
    loop = asyncio.get_running_loop()
    start = loop.time()
    screen = screen_for(lambda: loop.time() - start)
    summary = ClusterDemoSummary()
    try:
        await _play(documents, screen, summary)
    except* (StepFailed, KubeError) as errors:
        summary.failed = failure_text(errors)
    finally:
        screen.close()
    sys.stdout.write(f"\n{summary.text()}\n")
    return 0 if not summary.failed and summary.surplus == 0 else 1


def _check(documents: list[dict[str, Any]], manifest: Path) -> None:
    """Refuse manifests that the demo cannot run."""
    other = next((each["kind"] for each in documents if each["kind"] != "RayCluster"), None)
    if other is not None:
        raise ConfigurationError(
            f"{manifest} holds a {other}, and this demo takes RayClusters; --kind chooses another"
        )
    try:
        clusters = msgspec.convert(documents, list[_Scalable])
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{manifest} holds no usable RayCluster: {error}") from error
    if not clusters or not all(cluster.spec.worker_group_specs for cluster in clusters):
        raise ConfigurationError(f"{manifest} holds no RayCluster with a worker group to scale")


async def _play(
    documents: list[dict[str, Any]], screen: Screen, summary: ClusterDemoSummary
) -> None:
    """Start everything, run the steps, stop everything."""
    screen.headline("starting an embedded Kubernetes API server and a simulated node")
    settings = Settings(metrics_address="", health_address="")
    crds = custom_resource_definitions()
    async with (
        embedded_cluster(port=0, crds=crds, nodes=_NODES) as cluster,
        operator_for(cluster.credentials(), settings, user_agent=OPERATOR) as operator,
        asyncio.TaskGroup() as tasks,
    ):
        cluster.server.on_write.append(_pod_counter(summary))
        user = cluster.client("demo-user")
        view = ClusterView(str(documents[0]["metadata"]["name"]), screen)
        stop = asyncio.Event()
        running = tasks.create_task(operator.run(stop))
        watching = [tasks.create_task(informer.run()) for informer in cluster_informers(user, view)]
        await _steps(user, documents, view, screen, summary)
        _count_writes(cluster, summary)
        stop.set()
        await running
        for task in watching:
            task.cancel()


async def _steps(
    user: Client,
    documents: list[dict[str, Any]],
    view: ClusterView,
    screen: Screen,
    summary: ClusterDemoSummary,
) -> None:
    group = _first_group(documents)
    start = int(group.get("replicas", 0))
    more, fewer = start + 3, max(start - 1, 0)
    summary.pods_wanted = 1 + more

    def step(name: str) -> Step:
        return Step(name, STEP_SECONDS, screen, summary.steps)

    async with step("created -> ready"):
        for document in documents:
            await user.create(RAYCLUSTERS, NAMESPACE, document)
        await view.until(lambda v: v.state() == "ready")
    async with step(f"scaled {start} -> {more} workers"):
        await _scale(user, view.name, more)
        await view.until(lambda v: len(v.workers(ready=True)) == more and v.is_ready())
    async with step(f"scaled {more} -> {fewer} workers"):
        await _scale(user, view.name, fewer)
        await view.until(lambda v: len(v.pods) == 1 + fewer)
    async with step("deleted -> nothing left"):
        await user.delete(RAYCLUSTERS, NAMESPACE, view.name)
        await view.until(lambda v: v.cluster is None and not v.pods)


def cluster_informers(user: Client, view: ClusterView) -> list[SharedInformer[Any]]:
    """Return informers that keep the view up to date."""
    loop = asyncio.get_running_loop()
    clusters = SharedInformer(
        "demo-clusters",
        ResourceSource(user, RAYCLUSTERS, NAMESPACE),
        Codec(RAYCLUSTERS.view),
        clock=loop,
        rng=random.Random(),
    )
    clusters.add_handler(ObjectHandler(view.saw_cluster))
    pods = SharedInformer(
        "demo-pods",
        ResourceSource(user, PODS, NAMESPACE, label_selector=f"ray.io/cluster={view.name}"),
        Codec(PODS.view),
        clock=loop,
        rng=random.Random(),
    )
    pods.add_handler(ObjectHandler(view.saw_pod))
    return [clusters, pods]


def _pod_counter(summary: ClusterDemoSummary) -> Callable[[StoredEvent], None]:
    """Return a callback that counts pods at the moment the store creates them."""

    def count(event: StoredEvent) -> None:
        if event.table == "pods" and event.previous is None:
            summary.pods_made += 1

    return count


def _count_writes(cluster: EmbeddedCluster, summary: ClusterDemoSummary) -> None:
    for (agent, verb, resource), count in cluster.server.requests_by_user_agent.items():
        if agent.startswith(OPERATOR) and verb not in {"get", "list", "watch"}:
            summary.writes[f"{verb} {resource}"] = count


async def _scale(user: Client, name: str, replicas: int) -> None:
    path = "/spec/workerGroupSpecs/0/replicas"
    await user.json_patch(
        RAYCLUSTERS, NAMESPACE, name, [{"op": "replace", "path": path, "value": replicas}]
    )


def _first_group(documents: list[dict[str, Any]]) -> dict[str, Any]:
    groups: list[dict[str, Any]] = documents[0]["spec"]["workerGroupSpecs"]
    return groups[0]
