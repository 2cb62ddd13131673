"""The hosts file of a pod, in place of the cluster's DNS."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DOMAIN = "cluster.local"


def hosts_file(
    names: Mapping[tuple[str, str], tuple[str, ...]],
    *,
    namespace: str,
    hostname: str,
    ip: str,
) -> str:
    """Return the text of the hosts file of one pod.

    Args:
        names: addresses by namespace and service.
        namespace: namespace of the pod: its services have short names for it.
        hostname: hostname of the pod.
        ip: IP address of the pod.
    """
    lines = ["127.0.0.1 localhost", f"{ip} {hostname}"]
    for (space, service), addresses in sorted(names.items()):
        full = f"{service}.{space}.svc.{DOMAIN}"
        others = [f"{service}.{space}.svc", f"{service}.{space}"]
        if space == namespace and service != hostname:  # a pod's own name resolves to the pod
            others.append(service)
        lines += [" ".join([address, full, *others]) for address in addresses]
    return "".join(f"{line}\n" for line in lines)
