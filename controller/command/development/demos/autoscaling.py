"""`manta demo --kind autoscaling`: Ray's own autoscaler adds and removes workers of real Ray.

Pods are processes of this machine. A job requests as many processors as the first group may have
workers; after its end the idle workers are removed. The exit status is 0 only if all of this
happened and nothing was left behind.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from controller.command.development.demos.cluster import NAMESPACE, OPERATOR, cluster_informers
from controller.command.development.demos.real_ray import demo_with_real_ray
from controller.command.development.demos.steps import DemoSummary, Step
from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.development.view import ClusterView, Screen
from controller.command.manifests import load
from controller.command.run.operator import operator_for
from controller.devcluster.nodes import NodeSettings
from controller.kube.errors import ConfigurationError
from controller.kube.resources import SERVICES
from controller.ray.api import RAYCLUSTERS, custom_resource_definitions
from controller.ray.api.names import DASHBOARD_PORT
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from controller.command.development.demos.real_ray import MachineOptions
    from controller.command.development.process_node import ProcessNode
    from controller.kube.client import Client

_SECONDS = 900.0  # for each step: a small machine starts Ray slowly
_JOB = (
    "import ray, time; ray.init(); work = ray.remote(num_cpus=1)(lambda: time.sleep(5)); "
    "ray.get([work.remote() for _ in range({count})])"
)


class _Group(msgspec.Struct, rename="camel"):
    max_replicas: int


class _Spec(msgspec.Struct, rename="camel"):
    enable_in_tree_autoscaling: Literal[True]
    worker_group_specs: list[_Group]


class _Named(msgspec.Struct):
    name: str


class _Elastic(msgspec.Struct):
    """The part of a manifest that the demo reads."""

    kind: Literal["RayCluster"]
    metadata: _Named
    spec: _Spec

    @property
    def most(self) -> int:
        """The largest number of workers."""
        return self.spec.worker_group_specs[0].max_replicas


@dataclass(slots=True)
class AutoscalingDemoSummary(DemoSummary):
    """Seconds for each step, and what is left."""


async def autoscaling_demo(manifest: Path, machine: MachineOptions) -> int:
    """Run the demo and print its summary; returns the exit status.

    Args:
        manifest: one RayCluster with the autoscaler.
        machine: the options of this machine.

    Raises:
        ConfigurationError: the manifest has no autoscaler, or Ray cannot be installed.
    """
    document, elastic = _read(manifest)
    summary = AutoscalingDemoSummary()
    return await demo_with_real_ray(
        lambda node, screen: _play(document, elastic, node, screen, summary),
        summary,
        machine,
    )


def _read(manifest: Path) -> tuple[dict[str, Any], _Elastic]:
    documents = load(manifest)
    try:
        (elastic,) = msgspec.convert(documents, list[_Elastic])
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigurationError(
            f"{manifest} is not one RayCluster with enableInTreeAutoscaling: {error}"
        ) from error
    if not elastic.spec.worker_group_specs:
        raise ConfigurationError(f"{manifest} has no worker group")
    return documents[0], elastic


async def _play(
    document: dict[str, Any],
    elastic: _Elastic,
    node: ProcessNode,
    screen: Screen,
    summary: AutoscalingDemoSummary,
) -> None:
    """Start everything, run the steps, stop everything."""
    settings = Settings(metrics_address="", health_address="")
    crds = custom_resource_definitions()
    async with (
        embedded_cluster(port=0, crds=crds, nodes=NodeSettings(), process_node=node) as cluster,
        operator_for(cluster.credentials(), settings, user_agent=OPERATOR) as operator,
        asyncio.TaskGroup() as tasks,
    ):
        user = cluster.client("demo-user")
        view = ClusterView(elastic.metadata.name, screen)
        stop = asyncio.Event()
        running = tasks.create_task(operator.run(stop))
        watching = [tasks.create_task(one.run()) for one in cluster_informers(user, view)]
        await _steps(user, document, elastic, view, summary, screen)
        stop.set()
        await running
        for task in watching:
            task.cancel()


async def _steps(  # noqa: PLR0917  they share all of it
    user: Client,
    document: dict[str, Any],
    elastic: _Elastic,
    view: ClusterView,
    summary: AutoscalingDemoSummary,
    screen: Screen,
) -> None:
    def step(name: str) -> Step:
        return Step(name, _SECONDS, screen, summary.steps)

    async with step("created -> ready"):
        await user.create(RAYCLUSTERS, NAMESPACE, document)
        await view.until(lambda v: v.state() == "ready")
    async with step(f"job asks -> {elastic.most} workers"):
        await _submit(user, view.name, elastic.most)
        await view.until(lambda v: len(v.workers(ready=True)) == elastic.most)
    async with step("job ended, idle -> 0 workers"):
        await view.until(lambda v: not v.workers())
    async with step("deleted -> nothing left"):
        await user.delete(RAYCLUSTERS, NAMESPACE, view.name)
        await view.until(lambda v: v.cluster is None and not v.pods)


async def _submit(user: Client, cluster: str, count: int) -> None:
    """Submit a job that needs so many processors, through the API server."""
    job = {"entrypoint": f'python -c "{_JOB.format(count=count)}"'}
    await user.proxy(
        SERVICES,
        NAMESPACE,
        f"{cluster}-head-svc:{DASHBOARD_PORT}",
        "POST",
        "/api/jobs/",
        headers={"content-type": "application/json"},
        body=msgspec.json.encode(job),
        timeout=120.0,
    )
