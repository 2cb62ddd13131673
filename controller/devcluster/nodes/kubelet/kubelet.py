"""The base of kubelets: registered nodes, and a control loop for pods."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controller.devcluster.nodes.components.component_context import LoopComponent
from controller.devcluster.nodes.kubelet.placement import Placement
from controller.devcluster.nodes.kubelet.registration import Registration

if TYPE_CHECKING:
    from controller.devcluster.nodes.components.component_context import ComponentContext
    from controller.devcluster.nodes.kubelet.registration import NodeInfo


class Kubelet(LoopComponent[str]):
    """Registers nodes and reconciles pods, whose keys are `namespace/name`.

    Args:
        context: client, caches and time.
        info: system information of the nodes; by default that of simulated ones.
    """

    def __init__(self, context: ComponentContext, info: NodeInfo | None = None) -> None:
        super().__init__("kubelet", context)
        self.nodes = Registration(context, info)
        self.placement = Placement(context)

    async def start(self) -> None:
        """Register the nodes.

        Raises:
            controller.kube.errors.KubeError: a Node object could not be created.
        """
        await self.nodes.start()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._start_tasks(group)

    def _start_tasks(self, group: asyncio.TaskGroup) -> None:
        """Start everything that runs until the kubelet is cancelled."""
        group.create_task(self.nodes.run())
        group.create_task(self._loop.run())
