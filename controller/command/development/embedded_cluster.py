"""The embedded cluster of `manta dev` and `manta demo`: API server, nodes, CRDs, kubeconfig."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.command.clock import wall
from controller.devcluster.apiserver import ApiServer
from controller.devcluster.apiserver.http import serve
from controller.devcluster.logs import SimulatedLogs
from controller.devcluster.nodes import NodeSettings, SimulatedKubelet, run_nodes
from controller.kube.client import Client
from controller.kube.errors import ConfigurationError
from controller.kube.resources import CRDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping

    from controller.command.development.process_node import ProcessNode


@dataclass(frozen=True, slots=True)
class EmbeddedCluster:
    """A running embedded cluster and how to reach it."""

    server: ApiServer
    url: str

    def client(self, user_agent: str) -> Client:
        """A client in the same process; the server counts its requests under `user_agent`."""
        return Client(self.server, user_agent=user_agent, clock=asyncio.get_running_loop())


@asynccontextmanager
async def embedded_cluster(
    *,
    port: int,
    crds: Iterable[Mapping[str, Any]],
    nodes: NodeSettings,
    process_node: ProcessNode | None = None,
) -> AsyncGenerator[EmbeddedCluster]:
    """Start API server and node components, install `crds`, and stop all of it at the end.

    Args:
        port: TCP port on the loopback interface, 0 for any free one.
        crds: CustomResourceDefinitions to install before anything else starts.
        nodes: delays and size of the node.
        process_node: what runs the pods; None simulates them.

    Raises:
        ConfigurationError: the port cannot be used; the message says why.
    """
    loop = asyncio.get_running_loop()
    server = ApiServer(wall=wall, clock=loop, rng=random.Random())
    server.hooks.pod_log = SimulatedLogs(server)
    try:
        http = await serve(server, "127.0.0.1", port)
    except (OSError, OverflowError) as error:
        await server.aclose()
        raise ConfigurationError(f"cannot listen on port {port}: {error}") from error
    try:
        cluster = EmbeddedCluster(server, f"http://127.0.0.1:{http.port}")
        installer = cluster.client("manta-dev")
        for crd in crds:
            await installer.create(CRDS, "", crd)
        async with run_nodes(
            cluster.client("manta-nodes"),
            clock=loop,
            wall=wall,
            rng=random.Random(),
            settings=nodes,
            kubelet=process_node.component_factory(server, http.port)
            if process_node
            else SimulatedKubelet,
        ):
            yield cluster
    finally:
        await http.aclose()
        await server.aclose()
