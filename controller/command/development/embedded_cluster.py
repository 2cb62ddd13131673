"""The embedded cluster of `manta dev` and `manta demo`: API server, nodes, CRDs, credentials.

Requests need a token that only this user can read, because a client that may create pods may run
programs as this user.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import secrets
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from controller.apimachinery.certificates import issued_once
from controller.apimachinery.custom_object import dig, parse_readable
from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.command.development.process_node import ProcessNode
from controller.command.process import wall
from controller.kube.client import Client
from controller.kube.credentials import StaticCredentials
from controller.kube.errors import ConfigurationError, StatusError
from controller.kube.resources import CRDS, Resource
from devcluster.apiserver import ApiServer, StoredEvent
from devcluster.apiserver.authentication import Guard, TokenIssuer
from devcluster.apiserver.authorization import Rbac
from devcluster.apiserver.http import serve
from devcluster.apiserver.store import Stored
from devcluster.gateway import (
    GatewayController,
    SimulatedListeners,
    gateway_api_definitions,
)
from devcluster.karpenter import ClaimFates, SimulatedProvisioner, node_claim_definition
from devcluster.logs import SimulatedLogs
from devcluster.nodes import NodeSettings, SimulatedKubelet, run_nodes
from devcluster.nodes.components import ComponentContext, NodeShape
from devcluster.nodes.workloads import (
    DeploymentController,
    ReplicaSetController,
    StatefulSetController,
)
from devcluster.processes.volumes import References
from devcluster.ray_pods import SimulatedRays

# The nodes of an embedded cluster whose pods are simulated: kubelet, Rays and Gateways.


def simulated_kubelet(
    server: ApiServer, wall: Callable[[], datetime]
) -> Callable[[ComponentContext], SimulatedKubelet]:
    """Return a factory of the kubelet; attach logs and simulated Rays to the API server."""
    rays = SimulatedRays(server, wall)
    server.hooks.pod_log = SimulatedLogs(server)
    server.hooks.pod_proxy = rays.pod_proxy
    server.hooks.service_proxy = rays.service_proxy
    return lambda context: SimulatedKubelet(context, rays, References(context).missing)


def simulated_gateways(context: ComponentContext) -> GatewayController:
    """Return a controller for the Gateways of all classes that nobody else has."""
    return GatewayController(context, SimulatedListeners(), any_class=True)


async def follow(
    server: ApiServer,
    resource: Resource[Any],
    saw: Callable[[str, Any | None], None],
    *,
    namespace: str = "",
) -> None:
    """Call back with key and object of each that is there or changes; None once it is deleted.

    It reads the store of the server in this process, without a watch, until it is cancelled.
    """
    changes: asyncio.Queue[StoredEvent] = asyncio.Queue()
    table = str(resource)

    def note(event: StoredEvent) -> None:
        if event.table == table:
            changes.put_nowait(event)

    def show(key: str, stored: Stored | None) -> None:
        if key.startswith(f"{namespace}/" if namespace else ""):
            saw(key, stored and _view_of(stored.object, resource))

    server.on_write.append(note)
    try:
        for key, stored in tuple(server.store.table(table).items.items()):
            show(key, stored)
        while True:
            event = await changes.get()
            show(event.key, None if event.type == "DELETED" else event.current)
    finally:
        server.on_write.remove(note)


def _view_of(obj: dict[str, Any], resource: Resource[Any]) -> Any:
    try:
        return msgspec.convert(obj, resource.view)
    except msgspec.ValidationError:
        return parse_readable(obj, resource.view)


_HOSTS = [
    "127.0.0.1",
    "::1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
]


class EmbeddedCluster(msgspec.Struct, frozen=True):
    """A running embedded cluster and how to reach it: CA certificate (PEM), administrator's token.

    In this process every client of its server is the administrator.
    """

    server: ApiServer
    url: str
    authority: bytes
    token: str

    def client(self, user_agent: str) -> Client:
        """Return a client in this process; the server counts its requests by `user_agent`."""
        return Client(self.server, user_agent=user_agent, clock=asyncio.get_running_loop())

    def credentials(self) -> StaticCredentials:
        """Return the administrator's credentials, for clients over the network."""
        return StaticCredentials(
            self.url,
            ssl_context=ssl.create_default_context(cadata=self.authority.decode()),
            authorization=f"Bearer {self.token}",
        )

    def kubeconfig_cluster(self) -> dict[str, Any]:
        """Return the cluster's entry in a kubeconfig."""
        authority = base64.b64encode(self.authority).decode()
        return {"server": self.url, "certificate-authority-data": authority}

    def kubeconfig_user(self) -> dict[str, Any]:
        """Return the administrator's entry in a kubeconfig."""
        return {"token": self.token}


@asynccontextmanager
async def embedded_cluster(
    *,
    port: int,
    crds: Iterable[Mapping[str, Any]],
    nodes: NodeSettings,
    process_node: ProcessNode | None = None,
    claims: ClaimFates | None = None,
) -> AsyncGenerator[EmbeddedCluster]:
    """Start API server and node components, install `crds`, and stop all of it at the end.

    Without a `process_node` pods are simulated; without `claims`, which say what becomes of each
    NodeClaim, there is no provisioner of nodes. Port 0 is any free one.

    Raises:
        ConfigurationError: the port or a definition cannot be used; the message says why.
    """
    loop = asyncio.get_running_loop()
    server = ApiServer(wall=wall, clock=loop, rng=random.Random())
    server.hooks.tokens = TokenIssuer(server.store, wall)
    server.audit.authorizer = Rbac(server.store)
    hosts = [*_HOSTS, process_node.host_ip] if process_node else _HOSTS
    authority, certificate = issued_once("manta-dev", hosts, wall(), timedelta(days=365))
    token = secrets.token_urlsafe(32)
    guard = Guard(token, server.hooks.tokens, hosts)
    try:
        http = await serve(server, "127.0.0.1", port, guard=guard, tls=certificate.context())
    except (OSError, OverflowError) as error:
        await server.aclose()
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise ConfigurationError(f"cannot listen on port {port}: {reason}") from error
    try:
        url = f"https://127.0.0.1:{http.port}"
        cluster = EmbeddedCluster(server, url, authority, token)
        installer = cluster.client("manta-dev")
        own = [*gateway_api_definitions(), *([node_claim_definition()] if claims else [])]
        wanted = {dig(crd, "metadata", "name") or "without name": crd for crd in (*own, *crds)}
        for name, crd in wanted.items():
            try:
                await installer.create(CRDS, "", crd)
            except StatusError as error:
                raise ConfigurationError(
                    f"the definition {name} cannot be installed: {error}"
                ) from error
        async with run_nodes(
            cluster.client("manta-nodes"),
            clock=loop,
            wall=wall,
            rng=random.Random(),
            settings=nodes,
            kubelet=process_node.component_factory(server, http.port, authority)
            if process_node
            else simulated_kubelet(server, wall),
            others=[
                StatefulSetController,
                ReplicaSetController,
                DeploymentController,
                *([] if process_node else [simulated_gateways]),
                *([partial(SimulatedProvisioner, behaviour=claims)] if claims else []),
            ],
        ):
            yield cluster
    finally:
        await http.aclose()
        await server.aclose()


# The simulated nodes of `manta dev`: presets, or a file of the user's own.


class NodeGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the file: nodes that are alike, `name-0` and so on, with the capacities of each.

    Resources are other capacities, such as `nvidia.com/gpu`; labels are added to the usual ones.
    """

    name: str
    count: int = 1
    cpu: str | int | float = "32"
    memory: str | int = "128Gi"
    resources: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []

    def shapes(self) -> Iterator[NodeShape]:
        """Yield the nodes.

        Raises:
            ValueError: a capacity or the count is wrong.
        """
        if self.count < 1:
            raise ValueError(f"count of {self.name} is {self.count}: it must be 1 or more")
        capacities = {"cpu": self.cpu, "memory": self.memory, **self.resources}
        for name, amount in capacities.items():
            try:
                parse_quantity(amount)
            except InvalidQuantity as error:
                raise ValueError(f"{name} of {self.name}: {error}") from error
        resources = {name: str(amount) for name, amount in self.resources.items()}
        for number in range(self.count):
            yield NodeShape(
                f"{self.name}-{number}",
                str(self.cpu),
                str(self.memory),
                resources,
                self.labels,
                tuple(self.taints),
            )


PRESETS: Final = {
    "cpu": NodeGroup("cpu", 3, labels={"cloud.google.com/machine-family": "N4"}),
    "spot": NodeGroup("spot", labels={"cloud.google.com/gke-spot": "true"}),
    "8xH100": NodeGroup(
        "h100",
        1,
        "192",
        "2Ti",
        {"nvidia.com/gpu": 8},
        {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    ),
    "tpu-v6e-16": NodeGroup(
        "tpu",
        4,
        "180",
        "720Gi",
        {"google.com/tpu": 4},
        {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "4x4",
        },
    ),
}
"""Nodes as clouds rent them: for general use, that may go any time, with GPUs, a slice of TPUs."""


def node_shapes(options: Sequence[str]) -> tuple[NodeShape, ...]:
    """Return the nodes that `--nodes` names, each a preset or a file; all presets for none.

    Raises:
        ConfigurationError: one of them cannot be used; the message says why.
    """
    found: dict[str, NodeShape] = {}
    for option in options or PRESETS:
        groups = [PRESETS[option]] if option in PRESETS else _read(option)
        try:
            shapes = [shape for group in groups for shape in group.shapes()]
        except ValueError as error:
            raise ConfigurationError(f"--nodes {option}: {error}") from error
        for shape in shapes:
            if shape.name in found:
                raise ConfigurationError(
                    f"--nodes {option}: there is a node {shape.name} already; use another name"
                )
            found[shape.name] = shape
    return tuple(found.values())


def _read(option: str) -> list[NodeGroup]:
    try:
        document: Any = yaml.safe_load(Path(option).read_text())
    except OSError as error:
        raise ConfigurationError(
            f"--nodes {option}: neither a preset ({', '.join(PRESETS)}) nor a file that can be "
            f"read: {error.strerror}"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--nodes {option}: this is not YAML: {error}") from error
    try:
        groups = msgspec.convert(document, list[NodeGroup])
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"--nodes {option}: {error}; the file is a list of nodes, each with name, count, cpu, "
            "memory, resources, labels and taints"
        ) from error
    if not groups:
        raise ConfigurationError(f"--nodes {option}: it names no node")
    return groups
