"""This machine as the node of an embedded cluster: pods are its processes."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from controller.command.clock import wall
from controller.command.development.images import ray_program
from controller.devcluster.processes.component_group import Together
from controller.devcluster.processes.isolation.selection import NoIsolation, choose
from controller.devcluster.processes.kubelet import ProcessKubelet
from controller.devcluster.processes.logs import ProcessLogs
from controller.devcluster.processes.network.proxies import Proxies
from controller.devcluster.processes.network.services import ServiceNetwork
from controller.devcluster.processes.output import Outputs
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from controller.devcluster.apiserver import ApiServer
    from controller.devcluster.nodes.component_context import Surroundings
    from controller.devcluster.processes.images import Images
    from controller.devcluster.processes.isolation.selection import Chosen, Wanted


class Machine:
    """Runs the pods of one embedded cluster.

    Args:
        chosen: how pods are kept apart, and folders of this machine.
        images: what their programs are.
    """

    def __init__(self, chosen: Chosen, images: Images) -> None:
        self._chosen = chosen
        self._images = images
        self._outputs = Outputs(chosen.host.root / "logs", wall)
        self._proxies: Proxies | None = None

    @property
    def description(self) -> list[str]:
        """Sentences: what was found on this machine, how pods are kept apart, and why so."""
        return self._chosen.sentences()

    @property
    def ray(self) -> str:
        """Ray's own program, to be run on this machine."""
        return ray_program(self._images)

    def node_of(self, server: ApiServer, port: int) -> Callable[[Surroundings], Together]:
        """What runs the pods, and passes on what the API server is asked about them.

        Args:
            server: asks for logs and passes requests on to pods and services.
            port: of its plain HTTP on the loopback interface, which pods reach too.
        """
        server.hooks.pod_log = ProcessLogs(server, self._outputs, wall)

        def make(surroundings: Surroundings) -> Together:
            isolation = self._chosen.isolation
            kubelet = ProcessKubelet(
                surroundings,
                isolation=isolation,
                images=self._images,
                outputs=self._outputs,
                root=self._chosen.host.root,
                memory=self._chosen.host.memory,
            )
            network = ServiceNetwork(surroundings, isolation, ("127.0.0.1", port))
            proxies = self._proxies = Proxies(network, random.Random())
            server.hooks.pod_proxy = proxies.pod_proxy
            server.hooks.service_proxy = proxies.service_proxy
            return Together(network, kubelet)

        return make

    async def aclose(self) -> None:
        """End all that runs, and remove all that was made."""
        if self._proxies:
            await self._proxies.aclose()
        await self._chosen.isolation.aclose()

    def left_behind(self) -> list[str]:
        """Folders that are still there; asked when everything has ended."""
        host = self._chosen.host
        return [str(path) for path in (host.root, host.memory) if path.exists()]


@asynccontextmanager
async def machine_for(images: Images, isolation: Wanted) -> AsyncGenerator[Machine]:
    """This machine, ready to run pods; at the end all that ran on it is ended and removed.

    Raises:
        ConfigurationError: pods cannot be kept apart so; the message says why and what helps.
    """
    try:
        chosen = await choose(isolation)
    except NoIsolation as error:
        raise ConfigurationError(f"--isolation {isolation}: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"pods cannot be processes of this machine: {error}") from error
    machine = Machine(chosen, images)
    try:
        yield machine
    finally:
        await machine.aclose()
