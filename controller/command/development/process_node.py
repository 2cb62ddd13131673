"""This machine as the node of an embedded cluster: pods are its processes."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from controller.command.development.rayenv import (
    VARIABLES,
    create_ray_environment,
    ray_environment,
)
from controller.command.process import wall
from controller.kube.errors import ConfigurationError
from devcluster.apiserver import ApiServer
from devcluster.connections import ProcessConnections, Proxies
from devcluster.gateway import GatewayController
from devcluster.gateway_proxy import WeightedProxy
from devcluster.logs import ProcessLogs
from devcluster.nodes.components import ComponentContext
from devcluster.processes.cluster_dir import TAG_VARIABLE
from devcluster.processes.environment import ApiAccess, Image, Images, UnknownImage
from devcluster.processes.isolation import (
    IsolationOption,
    IsolationUnavailable,
    SelectedIsolation,
    select_isolation,
)
from devcluster.processes.kubelet import ComponentGroup, ProcessKubelet
from devcluster.processes.network import ServiceNetwork
from devcluster.processes.output import Outputs

# `--image NAME=PATH` and `--ray`: local environments used in place of images.

RAY_IMAGE = "rayproject/ray"
"""The image that the environment of `--ray` replaces, whatever its tag."""


def parse_images(options: Sequence[str]) -> dict[str, Image]:
    """Return environments by the name of the image that each replaces, from options `NAME=PATH`.

    Raises:
        ConfigurationError: one of them cannot be used; the message says which, and what to do.
    """
    images: dict[str, Image] = {}
    for option in options:
        name, _, path = option.rpartition("=")
        if not name or not path:
            raise ConfigurationError(
                f"--image {option}: write NAME=PATH, the name of an image and the folder of a "
                f"virtual environment that stands for it, as in {RAY_IMAGE}=/home/me/venv"
            )
        if name in images:
            raise ConfigurationError(f"--image {option}: {name} has another environment already")
        images[name] = Image(_environment(option, path), env=VARIABLES)
    return images


def _environment(option: str, path: str) -> Path:
    folder = Path(path).expanduser().absolute()
    if not (folder / "bin").is_dir():
        what = "has no folder bin" if folder.is_dir() else "is not a folder"
        raise ConfigurationError(
            f"--image {option}: {folder} {what}; give the folder of a virtual environment "
            "(python3 -m venv FOLDER makes one)"
        )
    return folder


async def images_for(options: Sequence[str], *, ray: bool) -> Images:
    """Return environments for the given images; with `ray`, always one for Ray's image.

    Raises:
        ConfigurationError: one of them is not available; the message says why and names a remedy.
    """
    images = parse_images(options)
    if ray and RAY_IMAGE not in images:
        environment = ray_environment()
        await create_ray_environment(environment)
        images[RAY_IMAGE] = Image(environment.folder, env=VARIABLES)
    return Images(images)


def ray_program(images: Images) -> str:
    """Return the path of `ray` in the environment for Ray's image; `ray` if there is none."""
    try:
        program = images.find(RAY_IMAGE).path / "bin" / "ray"
    except UnknownImage:
        return "ray"
    return str(program) if program.exists() else "ray"


class ProcessNode:
    """Runs the pods of one embedded cluster as processes."""

    def __init__(self, chosen: SelectedIsolation, images: Images) -> None:
        self._chosen = chosen
        self._images = images
        self._outputs = Outputs(wall)
        self._proxies: Proxies | None = None
        self._network: ServiceNetwork | None = None

    @property
    def folder(self) -> Path:
        """A folder that only this user may read, removed at the end."""
        return self._chosen.cluster_dir.root

    def add_image(self, name: str, image: Image) -> None:
        """Use an environment in place of an image, unless the user has named one."""
        self._images.add(name, image)

    def environment_of(self, name: str) -> dict[str, str]:
        """Return the environment of a process of that name, which ends with this one."""
        return {TAG_VARIABLE: f"{self.folder}/{name}"}

    def service_address(self, namespace: str, name: str) -> str:
        """Return the address at which this machine reaches a service; empty if there is none."""
        return self._network.address(namespace, name) if self._network else ""

    @property
    def description(self) -> list[str]:
        """Sentences that describe this machine, the isolation mode, and why it was selected."""
        return self._chosen.sentences()

    @property
    def host_ip(self) -> str:
        """The address at which pods reach this machine."""
        return self._chosen.isolation.host_ip

    @property
    def ray(self) -> str:
        """Path of the `ray` program on this machine."""
        return ray_program(self._images)

    def component_factory(
        self, server: ApiServer, port: int, authority: bytes
    ) -> Callable[[ComponentContext], ComponentGroup]:
        """Return a factory of the node's component; attach logs and proxies to the API server.

        Pods reach its port on the loopback interface at `host_ip`; `authority` (PEM) signs its
        certificate.
        """
        access = ApiAccess(self.host_ip, port, authority)
        server.hooks.pod_log = ProcessLogs(server, self._outputs, wall)

        def make(context: ComponentContext) -> ComponentGroup:
            isolation = self._chosen.isolation
            kubelet = ProcessKubelet(
                context,
                isolation=isolation,
                images=self._images,
                outputs=self._outputs,
                root=self._chosen.cluster_dir.root,
                memory=self._chosen.cluster_dir.memory,
                access=access,
            )
            server.hooks.pod_connection = ProcessConnections(kubelet)
            network = self._network = ServiceNetwork(context, isolation, ("127.0.0.1", port))
            gateway = WeightedProxy(network.endpoints, random.Random(), network.admits)
            proxies = self._proxies = Proxies(network, random.Random())
            server.hooks.pod_proxy = proxies.pod_proxy
            server.hooks.service_proxy = proxies.service_proxy
            return ComponentGroup(network, kubelet, GatewayController(context, gateway))

        return make

    async def aclose(self) -> None:
        """Stop all processes and remove all files."""
        if self._proxies:
            await self._proxies.aclose()
        await self._chosen.isolation.aclose()

    def left_behind(self) -> list[str]:
        """Return directories that still exist; to be called after `aclose`."""
        host = self._chosen.cluster_dir
        return [str(path) for path in (host.root, host.memory) if path.exists()]


@asynccontextmanager
async def process_node(images: Images, isolation: IsolationOption) -> AsyncGenerator[ProcessNode]:
    """Yield this machine as a node; its processes and files are removed on exit.

    Raises:
        ConfigurationError: the isolation mode is not available; the message names a remedy.
    """
    try:
        chosen = await select_isolation(isolation)
    except IsolationUnavailable as error:
        raise ConfigurationError(f"--isolation {isolation}: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"pods cannot be processes of this machine: {error}") from error
    node = ProcessNode(chosen, images)
    try:
        yield node
    finally:
        await node.aclose()
