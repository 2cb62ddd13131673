"""Announces where Ray's dashboards can be reached from this machine."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from controller.command.development.view import ObjectHandler
from controller.command.development.view.pods import pod_state
from controller.kube.resources import PODS
from controller.kube.source import ResourceSource
from controller.ray.api.ports import DASHBOARD_PORT
from informers import Codec, SharedInformer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from controller.command.development.embedded_cluster import EmbeddedCluster
    from controller.kube.objects import Pod


@asynccontextmanager
async def dashboard_addresses(
    cluster: EmbeddedCluster, say: Callable[[str], None], *, ray: str
) -> AsyncGenerator[None]:
    """Announce the dashboard address of every head that becomes ready.

    The address is that of the head's pod, so a replacement head has a new one.

    Args:
        cluster: where the heads are.
        say: called with each sentence.
        ray: Ray's own program, which can submit jobs there.
    """
    heads = SharedInformer(
        "dev-heads",
        ResourceSource(cluster.client("manta-dev"), PODS, label_selector="ray.io/node-type=head"),
        Codec(PODS.view),
        clock=asyncio.get_running_loop(),
        rng=random.Random(),
    )
    heads.add_handler(ObjectHandler(_Heads(say, ray).saw_pod))
    running = asyncio.create_task(heads.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait((running,))


class _Heads:
    def __init__(self, say: Callable[[str], None], ray: str) -> None:
        self._say = say
        self._ray = ray
        self._said: dict[str, str] = {}

    def saw_pod(self, key: str, pod: Pod | None) -> None:
        """Announce the dashboard once for each address."""
        if pod is None:
            self._said.pop(key, None)
        elif pod_state(pod) == "Ready":
            address = f"http://{pod.status.pod_ip}:{_port(pod)}"
            if self._said.get(key) != address:
                self._said[key] = address
                cluster = (pod.metadata.labels or {}).get("ray.io/cluster", "")
                self._say(
                    f"RayCluster {pod.metadata.namespace}/{cluster}: dashboard at {address} "
                    f"({self._ray} job submit --address {address} -- COMMAND)"
                )


def _port(pod: Pod) -> int:
    ports = (port for container in pod.spec.containers for port in container.ports)
    return next((port.container_port for port in ports if port.name == "dashboard"), DASHBOARD_PORT)
