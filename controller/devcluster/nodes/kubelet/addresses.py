"""Addresses of pods and nodes, as a cluster network assigns them."""

from __future__ import annotations

from ipaddress import IPv4Address

_FIRST_POD = int(IPv4Address("10.244.0.1"))
_POD_ADDRESSES = 4 * 65536 - 2  # 10.244.0.1 to 10.247.255.254
_FIRST_NODE = int(IPv4Address("172.18.0.2"))


def node_address(number: int) -> str:
    """Return the address of the node with that number, from 0."""
    return str(IPv4Address(_FIRST_NODE + number))


class PodAddresses:
    """Assigns each pod a unique address.

    Args:
        size: number of addresses, from 10.244.0.1 on.
    """

    def __init__(self, size: int = _POD_ADDRESSES) -> None:
        self._size = size
        self._by_uid: dict[str, str] = {}
        self._taken: set[str] = set()
        self._next = 0

    def hold(self, uid: str, address: str) -> None:
        """Record that the pod has this address."""
        self.release(uid)
        self._by_uid[uid] = address
        self._taken.add(address)

    def of(self, uid: str) -> str:
        """Return the pod's address, the same at every call until it is released.

        Raises:
            RuntimeError: all addresses are taken.
        """
        address = self._by_uid.get(uid)
        if address is None:
            address = self._free()
            self.hold(uid, address)
        return address

    def release(self, uid: str) -> None:
        """Release the address of a pod that is gone."""
        address = self._by_uid.pop(uid, None)
        if address is not None:
            self._taken.discard(address)

    def _free(self) -> str:
        for _ in range(self._size):
            address = str(IPv4Address(_FIRST_POD + self._next))
            self._next = (self._next + 1) % self._size
            if address not in self._taken:
                return address
        raise RuntimeError("no pod address is free")
