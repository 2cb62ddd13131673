"""`manta dev`: an embedded Kubernetes for one person, with the operator in it.

Prints the kubeconfig to use and runs until it is stopped; nothing is kept.
"""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.command.development.dashboard_addresses import dashboard_addresses
from controller.command.development.embedded_cluster import embedded_cluster, write_kubeconfig
from controller.command.development.images import images_for
from controller.command.development.process_node import process_node
from controller.command.development.user_dirs import cache_dir
from controller.command.manifests import load
from controller.command.operator import operator_for
from controller.command.signals import INTERRUPTED, stop_on_signals, unless_stopped
from controller.devcluster.nodes import NodeSettings
from controller.kube.credentials import StaticCredentials
from controller.ray.api import custom_resource_definitions
from controller.runtime.logs import configure_logging
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping
    from pathlib import Path

    from controller.command.development.process_node import ProcessNode
    from controller.devcluster.processes.isolation.selection import IsolationOption
    from controller.runtime.settings import LogLevel


def default_kubeconfig(environment: Mapping[str, str] = os.environ) -> Path:
    """Default path of the kubeconfig of `manta dev`."""
    return cache_dir(environment) / "kubeconfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    """Options of `manta dev`.

    Attributes:
        port: TCP port on the loopback interface, 0 for any free one.
        kubeconfig: file to write; removed again at the end.
        crds: file or folder with CustomResourceDefinitions to install instead of Manta's.
        operator: whether to run the operator too.
        log_level: of the operator.
        ray: whether pods are processes, and an environment with Ray is made for them.
        images: `NAME=PATH`, each an environment that stands for an image; if there are any, pods
            are processes.
        isolation: how pods that are processes are kept apart.
    """

    port: int
    kubeconfig: Path
    crds: Path | None
    operator: bool
    log_level: LogLevel
    ray: bool = False
    images: tuple[str, ...] = ()
    isolation: IsolationOption = "auto"

    @property
    def processes(self) -> bool:
        """Whether pods are processes of this machine; if not, they are simulated."""
        return self.ray or bool(self.images)


async def dev(options: DevOptions) -> int:
    """Run an embedded cluster until SIGINT or SIGTERM; returns the exit status.

    Raises:
        ConfigurationError: an option cannot be honoured; the message says why.
    """
    level = options.log_level
    configure_logging(level=level, format="console" if sys.stderr.isatty() else "json")
    definitions = load(options.crds) if options.crds else custom_resource_definitions()
    stop = stop_on_signals()
    async with AsyncExitStack() as stack:
        node = None
        if options.processes:
            images = await unless_stopped(stop, images_for(options.images, ray=options.ray))
            if images is None:
                return INTERRUPTED
            node = await stack.enter_async_context(process_node(images, options.isolation))
        cluster = await stack.enter_async_context(
            embedded_cluster(
                port=options.port, crds=definitions, nodes=NodeSettings(), process_node=node
            )
        )
        write_kubeconfig(options.kubeconfig, cluster.url)
        stack.callback(options.kubeconfig.unlink, missing_ok=True)
        if node:
            _tell_about(node)
            await stack.enter_async_context(dashboard_addresses(cluster, _say, ray=node.ray))
        _greet(options, cluster.url)
        status = await _run_operator(cluster.url, stop) if options.operator else await _wait(stop)
    _say("stopped")
    return status


async def _run_operator(url: str, stop: asyncio.Event) -> int:
    settings = Settings(metrics_address="", health_address="")
    credentials = StaticCredentials(url)
    async with operator_for(credentials, settings, user_agent="manta-operator") as operator:
        return await operator.run(stop)


async def _wait(stop: asyncio.Event) -> int:
    await stop.wait()
    return 0


def _tell_about(node: ProcessNode) -> None:
    for sentence in node.description:
        _say(sentence)


def _greet(options: DevOptions, url: str) -> None:
    with_operator = "with the operator" if options.operator else "without an operator"
    _say(
        f"An embedded Kubernetes API server listens at {url}, {with_operator}.\n"
        "In another terminal:\n\n"
        f"  export KUBECONFIG={options.kubeconfig}\n"
        "  kubectl apply -f examples/raycluster.yaml\n"
        "  kubectl get raycluster -w\n\n"
        "Press Ctrl-C to stop; nothing is kept."
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
