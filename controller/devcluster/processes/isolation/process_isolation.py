"""The common part of the isolation modes with a sandbox of its own for each pod."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from controller.devcluster.processes.isolation.sandbox import ProcessSandbox

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.devcluster.processes.machine.cluster_dir import ClusterDir
    from controller.devcluster.processes.machine.pod_sandbox import PodSandbox

S = TypeVar("S", bound=ProcessSandbox)


class ProcessIsolation(ABC, Generic[S]):
    """The sandboxes by uid of their pod, and the names of services in them."""

    def __init__(self, cluster_dir: ClusterDir) -> None:
        self._cluster_dir = cluster_dir
        self._sandboxes: dict[str, S] = {}
        self._names: dict[tuple[str, str], tuple[str, ...]] = {}

    async def close_pod(self, sandbox: PodSandbox) -> None:
        """Kill its processes and remove its network and directory."""
        for own in list(self._sandboxes.values()):
            if own is sandbox:
                del self._sandboxes[own.uid]
                await self._end(own)

    def is_pod(self, address: str) -> bool:
        """Return whether a pod with a network of its own has that address."""
        return any(
            sandbox.ip == address and sandbox.setting.pod and not sandbox.setting.host_network
            for sandbox in self._sandboxes.values()
        )

    @abstractmethod
    async def _end(self, sandbox: S) -> None:
        """Kill the processes of a sandbox and remove its network and directory."""

    def publish(self, names: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Rewrite the hosts files of all pods."""
        self._names = dict(names)
        for sandbox in self._sandboxes.values():
            sandbox.write_hosts_file(self._names)

    async def aclose(self) -> None:
        """Close all pods and remove their files."""
        for sandbox in list(self._sandboxes.values()):
            await self.close_pod(sandbox)
        await asyncio.to_thread(self._cluster_dir.close)
