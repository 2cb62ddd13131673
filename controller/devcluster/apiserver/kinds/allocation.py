"""Allocation of service addresses and node ports."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.jsondata import entries

if TYPE_CHECKING:
    import random

    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.storage.store import ObjectStore, StoredEvent

SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)


class Allocations:
    """Allocates service addresses and node ports; follows the store's writes."""

    def __init__(self, store: ObjectStore, rng: random.Random) -> None:
        self._rng = rng
        self._held: dict[str, tuple[frozenset[str], frozenset[int]]] = {}
        store.on_write.append(self._follow)

    def _follow(self, event: StoredEvent) -> None:
        if event.table != "services":
            return
        self._held.pop(event.key, None)
        if event.type != "DELETED":
            spec: Json = event.current.object["spec"]
            ports = frozenset(
                port["nodePort"] for port in entries(spec, "ports") if "nodePort" in port
            )
            self._held[event.key] = (frozenset(entries(spec, "clusterIPs")), ports)

    def address(self) -> str:
        """Return a free address of the service network."""
        used = {address for addresses, _ in self._held.values() for address in addresses}
        while True:
            address = str(SERVICE_NETWORK[self._rng.randrange(10, 65000)])
            if address not in used:
                return address

    def node_port(self, taken: set[int]) -> int:
        """Return a free node port that is not among `taken`."""
        used = {port for _, ports in self._held.values() for port in ports} | taken
        while True:
            port = self._rng.choice(NODE_PORTS)
            if port not in used:
                return port
