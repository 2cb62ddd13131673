"""Mode "shared": all pods share this machine's network. The fallback for all machines.

Pods have loopback addresses, but a listener on all addresses listens on those of all pods.
Ray's nodes get their own ports through a hook of `ray start`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from controller.devcluster.processes.isolation.shim import ShimIsolation, namespaces_permitted
from controller.devcluster.processes.network.names import DOMAIN

if TYPE_CHECKING:
    from controller.devcluster.processes.cluster_dir import ClusterDir
    from controller.devcluster.processes.pod_sandbox import Mode

_HOOK = Path(__file__).with_name("manta_ray_start.py")


class SharedIsolation(ShimIsolation):
    """Implements `Isolation`."""

    mode: Mode = "shared"

    def __init__(self, cluster_dir: ClusterDir, *, namespaces: bool) -> None:
        """Use `open_shared`."""
        super().__init__(cluster_dir, _HOOK, namespaces=namespaces)

    @property
    def description(self) -> str:
        """Description for users."""
        return (
            "all pods share this machine's network, so run one Ray cluster at a time; a worker's "
            "metrics and agent ports are not those of its pod, and other users of this machine "
            "reach pods" + self._files
        )

    def _variables(self, seen: str, ip: str, hostname: str) -> dict[str, str]:
        del hostname
        numbers = {
            sandbox.setting.env.get("MANTA_POD_NUMBER") for sandbox in self._sandboxes.values()
        }
        number = next(one for one in range(1, 4096) if str(one) not in numbers)
        return {
            "RAY_START_HOOK": f"{_HOOK.stem}.hook",
            "PYTHONPATH": seen,
            "MANTA_POD_IP": ip,
            "MANTA_POD_NUMBER": str(number),
        }

    def translate(self, text: str) -> str:
        """Return `text` with names of services replaced by addresses.

        Raises:
            OSError: a service has no ready pod yet.
        """
        for (namespace, service), addresses in self._names.items():
            if addresses:
                text = text.replace(f"{service}.{namespace}.svc.{DOMAIN}", addresses[0])
        if f".svc.{DOMAIN}" in text:
            name = text.partition(f".svc.{DOMAIN}")[0].split()[-1]
            raise OSError(f"no pod is ready behind the service in {name}.svc.{DOMAIN}")
        return text


async def open_shared(cluster_dir: ClusterDir) -> SharedIsolation:
    """Open the isolation, which is always possible."""
    return SharedIsolation(cluster_dir, namespaces=await namespaces_permitted(cluster_dir))
