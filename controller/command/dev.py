"""`manta dev`: an embedded Kubernetes for one person, with the operator in it.

Prints the kubeconfig to use and runs until it is told to stop; nothing is kept.
"""

from __future__ import annotations

import os
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from controller.command.embedded import embedded_cluster, write_kubeconfig
from controller.command.folders import cache_folder
from controller.command.manifests import load
from controller.command.operator import operator_for
from controller.command.signals import stop_on_signals
from controller.devcluster.nodes import NodeSettings
from controller.kube.credentials import StaticCredentials
from controller.ray.api import custom_resource_definitions
from controller.runtime.logs import configure_logging
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from controller.runtime.settings import LogLevel


def default_kubeconfig(environment: Mapping[str, str] = os.environ) -> Path:
    """Where `manta dev` puts its kubeconfig unless told otherwise."""
    return cache_folder(environment) / "kubeconfig"


async def dev(
    *, port: int, kubeconfig: Path, crds: Path | None, operator: bool, log_level: LogLevel
) -> int:
    """Run an embedded cluster until SIGINT or SIGTERM; returns the exit status.

    Args:
        port: TCP port on the loopback interface, 0 for any free one.
        kubeconfig: file to write; removed again at the end.
        crds: file or folder with CustomResourceDefinitions to install instead of Manta's.
        operator: whether to run the operator too.
        log_level: of the operator.
    """
    configure_logging(level=log_level, format="console" if sys.stderr.isatty() else "json")
    definitions = load(crds) if crds else custom_resource_definitions()
    stop = stop_on_signals()
    status = 0
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            embedded_cluster(port=port, crds=definitions, nodes=NodeSettings())
        )
        write_kubeconfig(kubeconfig, cluster.url)
        stack.callback(kubeconfig.unlink, missing_ok=True)
        _greet(kubeconfig, cluster.url, operator=operator)
        if operator:
            settings = Settings(metrics_address="", health_address="")
            running = await stack.enter_async_context(
                operator_for(StaticCredentials(cluster.url), settings, user_agent="manta-operator")
            )
            status = await running.run(stop)
        else:
            await stop.wait()
    sys.stdout.write("stopped\n")
    return status


def _greet(kubeconfig: Path, url: str, *, operator: bool) -> None:
    with_operator = "with the operator" if operator else "without an operator"
    sys.stdout.write(
        f"An embedded Kubernetes API server listens at {url}, {with_operator}.\n"
        "In another terminal:\n\n"
        f"  export KUBECONFIG={kubeconfig}\n"
        "  kubectl apply -f examples/raycluster.yaml\n"
        "  kubectl get raycluster -w\n\n"
        "Press Ctrl-C to stop; nothing is kept.\n"
    )
    sys.stdout.flush()
