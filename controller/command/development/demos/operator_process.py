"""The operator as a process of its own, which can be killed."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final

import yaml

from controller.kube.clean_up import ends_within

if TYPE_CHECKING:
    from controller.command.development.embedded_cluster import EmbeddedCluster
    from controller.command.development.process_node import ProcessNode

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
