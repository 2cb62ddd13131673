"""Ports of this machine for servers of tests."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 10_000


def free_ports(count: int) -> list[int]:
    """Ports at which nobody listens, for servers that start later.

    The kernel gives none of them to a connection or a server that asks for any port, as it may do
    with a port that it chose itself and that was closed again.
    """
    found = set[int]()
    while len(found) < count:
        port = random.randrange(_FIRST, _first_ephemeral())
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.add(port)
    return sorted(found)


def free_port() -> int:
    return free_ports(1)[0]


def _first_ephemeral() -> int:
    try:
        return max(int(_EPHEMERAL.read_text().split()[0]), _FIRST + 1000)
    except FileNotFoundError:
        return 32_768  # not Linux: above it most systems choose
