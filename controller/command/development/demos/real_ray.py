"""Runs a demo whose pods are processes of this machine with real Ray."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from controller.command.development.demos.steps import StepFailed, failure_text
from controller.command.development.process_node import images_for, process_node
from controller.command.development.view import screen_for
from controller.kube.errors import KubeError
from controller.kube.http import ends_within
from controller.runtime.logs import configure_logging

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from controller.command.development.demos.steps import DemoSummary
    from controller.command.development.embedded_cluster import EmbeddedCluster
    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen
    from controller.devcluster.processes.images import Images
    from controller.devcluster.processes.isolation import IsolationOption


# Runs a demo whose pods are processes of this machine.


async def demo_with_processes(
    play: Callable[[ProcessNode, Screen], Awaitable[None]],
    summary: DemoSummary,
    images: Images,
    isolation: IsolationOption,
) -> int:
    """Play a demo and print its summary; returns the exit status.

    Args:
        play: the demo; it fills in the summary.
        summary: its results; what is left behind, and why it failed, are filled in here.
        images: the programs of the pods.
        isolation: how pods are kept apart.

    Raises:
        ConfigurationError: the isolation is not possible; the message names a remedy.
    """
    configure_logging(level="error", format="console")
    async with process_node(images, isolation) as node:
        loop = asyncio.get_running_loop()
        start = loop.time()
        screen = screen_for(lambda: loop.time() - start)
        try:
            screen.headline("starting an embedded Kubernetes API server whose pods are processes")
            for sentence in node.description:
                screen.change(sentence)
            await play(node, screen)
        except* (StepFailed, KubeError) as errors:
            summary.failed = failure_text(errors)
        finally:
            screen.close()
    summary.left_behind = node.left_behind()
    sys.stdout.write(f"\n{summary.text()}\n")
    return 0 if summary.worked else 1


# The operator as a process of its own, which can be killed.

_ARGUMENTS: Final = ("run", "--metrics-address=", "--health-address=", "--log-level=error")
_PATIENCE: Final = 30.0  # seconds for its end


class OperatorProcess:
    """`manta run` against an embedded cluster. It ends with the cluster, whatever happens.

    Args:
        cluster: the embedded cluster.
        node: this machine; it keeps the kubeconfig.
    """

    def __init__(self, cluster: EmbeddedCluster, node: ProcessNode) -> None:
        self._kubeconfig = node.folder / "operator.kubeconfig"
        self._environment = {**os.environ, **node.environment_of("operator")}
        content = {
            "clusters": [{"name": "dev", "cluster": cluster.kubeconfig_cluster()}],
            "users": [{"name": "dev", "user": cluster.kubeconfig_user()}],
            "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "dev"}}],
            "current-context": "dev",
        }
        self._kubeconfig.write_text(yaml.safe_dump(content))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> int:
        """Start it; returns its process id."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "controller", *_ARGUMENTS),
            f"--kubeconfig={self._kubeconfig}",
            stdin=asyncio.subprocess.DEVNULL,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is for the process that has started it
        )
        return self._process.pid

    async def kill(self) -> int:
        """Kill it with SIGKILL; returns its exit status, -9 if it had been running."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        return await self._process.wait()

    async def aclose(self) -> None:
        """Ask it to end, and wait."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        if not await ends_within(_PATIENCE, self._process.wait()):
            await self.kill()


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """The options of this machine, as the node of a demo.

    Attributes:
        images: `NAME=PATH`, environments that stand for images; one with Ray is made unless there
            is one.
        isolation: how pods are kept apart.
    """

    images: Sequence[str]
    isolation: IsolationOption


async def demo_with_real_ray(
    play: Callable[[ProcessNode, Screen], Awaitable[None]],
    summary: DemoSummary,
    machine: MachineOptions,
) -> int:
    """Play a demo and print its summary; returns the exit status.

    Args:
        play: the demo; it fills in the summary.
        summary: its results; what is left behind, and why it failed, are filled in here.
        machine: the options of this machine.

    Raises:
        ConfigurationError: Ray cannot be installed; the message names a remedy.
    """
    environments = await images_for(machine.images, ray=True)
    return await demo_with_processes(play, summary, environments, machine.isolation)
