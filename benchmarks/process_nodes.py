"""A real control plane whose pods run: each node's pods are processes of this machine.

The API server, the controller manager and the scheduler are those of tests/lab, and what nodes do
is done by the kubelet and the service network of `manta dev --ray`. So what is measured here meets
the real scheduler, the real eviction API and the real Ray.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks.planes import real_plane
from controller.command.development.process_node import images_for
from controller.kube.resources import NODES
from devcluster.nodes import NodeSettings, run_nodes
from devcluster.nodes.components import ComponentContext
from devcluster.nodes.pods import KubeletPod
from devcluster.processes.isolation import select_isolation
from devcluster.processes.kubelet import ComponentGroup, ProcessKubelet
from devcluster.processes.network import ServiceNetwork
from devcluster.processes.output import Outputs
from tests.integration.harness import World
from tests.lab.control_plane import ControlPlane, control_plane

_NEVER_LOST: Final = ("--node-monitor-grace-period=1h",)
"""This machine is busy: a heartbeat that comes late must not empty a node."""


class BoundPodsKubelet(ProcessKubelet):
    """Runs what the scheduler has bound to its nodes, and binds nothing itself."""

    async def _bind(self, pod: KubeletPod) -> None:
        del pod


class RunningPlane(Struct, frozen=True):
    """A control plane with nodes.

    Attributes:
        plane: its programs.
        world: a user in a namespace, with Manta's definitions installed.
        nodes: names of the nodes.
    """

    plane: ControlPlane
    world: World
    nodes: tuple[str, ...]


@asynccontextmanager
async def process_nodes(folder: Path, count: int) -> AsyncGenerator[RunningPlane]:
    """Start everything and stop it at the end; entered when pods may run on all nodes.

    Args:
        folder: an empty folder, for logs and the kubeconfig.
        count: number of nodes, each of which has the processors and the memory of this machine.

    Raises:
        ConfigurationError: there is no environment with Ray.
        StartError: a program of the lab is missing or did not start.
    """
    images = await images_for((), ray=True)
    settings = NodeSettings(nodes=count, node_name="node", heartbeat=20.0, max_pods=110)
    async with AsyncExitStack() as stack:
        plane = stack.enter_context(control_plane(folder))
        stack.enter_context(
            plane.controller_manager("nodelifecycle", label="nodes", flags=_NEVER_LOST)
        )
        stack.enter_context(plane.scheduler())
        world = await stack.enter_async_context(real_plane(plane.kubeconfig))
        chosen = await select_isolation()
        stack.push_async_callback(chosen.isolation.aclose)

        def kubelet(context: ComponentContext) -> ComponentGroup:
            runs = BoundPodsKubelet(
                context,
                isolation=chosen.isolation,
                images=images,
                outputs=Outputs(world.wall),
                root=chosen.cluster_dir.root,
                memory=chosen.cluster_dir.memory,
            )
            return ComponentGroup(ServiceNetwork(context, chosen.isolation), runs)

        await stack.enter_async_context(
            run_nodes(
                world.client("kubelet"),
                clock=world.loop,
                wall=world.wall,
                rng=random.Random(1),
                settings=settings,
                components={"kubelet"},
                kubelet=kubelet,
            )
        )
        for name in settings.node_names:
            await world.eventually(lambda name=name: _is_open(world, name), seconds=60)
        yield RunningPlane(plane, world, settings.node_names)


async def _is_open(world: World, node: str) -> bool:
    """Whether the node controller has taken away the taint of a new node."""
    found = await world.user.get_raw(NODES, "", node)
    return not found["spec"].get("taints")
