"""The users of this machine who may reach pods: whoever reaches Ray acts as the user of Ray."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_TABLES = {Path("/proc/net/tcp"): "", Path("/proc/net/tcp6"): "0000000000000000FFFF0000"}
"""Tables of connections, with what stands before an IPv4 address in each."""
_LAST_UID = 4_294_967_294


def permitted_users(environment: Mapping[str, str] = os.environ) -> frozenset[int]:
    """Return the user ids of this process and of the user behind `sudo`."""
    behind = environment.get("SUDO_UID", "")
    return frozenset({os.getuid(), *([int(behind)] if behind.isdecimal() else [])})


def ranges_of_others(permitted: Collection[int]) -> list[str]:
    """Return all other user ids, in ranges as `ip rule` takes them."""
    found: list[str] = []
    first = 0
    for uid in (*sorted(permitted), _LAST_UID + 1):
        if first < uid:
            found.append(f"{first}-{uid - 1}")
        first = uid + 1
    return found


def owner(peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    """Return the user at the other end of a connection within this machine's own network.

    Args:
        peer: address and port of that end.
        here: address and port of this end.

    Returns:
        The user id; None if no process of that network holds that end, as for one in a pod.
    """
    for table, before in _TABLES.items():
        wanted = [before + _in_table(peer), before + _in_table(here)]
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[1:3] == wanted and fields[9] != "0":  # closed ends have no inode, no owner
                return int(fields[7])
    return None


def _in_table(endpoint: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(endpoint[0]))
    return f"{number:08X}:{endpoint[1]:04X}"
