"""This machine as the node of an embedded cluster: pods are its processes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from controller.command.clock import wall
from controller.devcluster.processes.kubelet import ProcessKubelet
from controller.devcluster.processes.logs import ProcessLogs
from controller.devcluster.processes.output import Outputs
from controller.devcluster.processes.places.choice import NoIsolation, choose
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from controller.devcluster.apiserver import ApiServer
    from controller.devcluster.nodes.surroundings import Surroundings
    from controller.devcluster.processes.images import Images
    from controller.devcluster.processes.places.choice import Chosen, Wanted


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

    @property
    def description(self) -> list[str]:
        """Sentences: what was found on this machine, how pods are kept apart, and why so."""
        return self._chosen.sentences()

    def kubelet(self, surroundings: Surroundings) -> ProcessKubelet:
        """What runs the pods."""
        return ProcessKubelet(
            surroundings,
            isolation=self._chosen.isolation,
            images=self._images,
            outputs=self._outputs,
            root=self._chosen.host.root,
            memory=self._chosen.host.memory,
        )

    def answer_for(self, server: ApiServer) -> None:
        """Let the API server ask this machine for logs."""
        server.hooks.pod_log = ProcessLogs(server, self._outputs, wall)

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
    try:
        yield Machine(chosen, images)
    finally:
        await chosen.isolation.aclose()
