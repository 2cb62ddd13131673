"""Ray's nodes as its state API lists them: values, and the meaning of the response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from controller.ray.dashboard.client.responses import bounded, decoded, moment
from controller.ray.dashboard.errors import UnusableResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from controller.ray.dashboard.transport.transport import DashboardResponse

MAX_NODES: Final = 10_000
"""Nodes that Ray lists at most; it refuses a larger limit."""

_ALIVE: Final = "ALIVE"
_STATES: Final = frozenset({_ALIVE, "DEAD"})


@dataclass(frozen=True, slots=True)
class RayNode:
    """One node, as the GCS knows it. Ray does not say that a node is being drained, nor its load.

    Attributes:
        id: in hexadecimal digits. A container that restarts becomes another node.
        address: its IP address, which is that of its pod.
        alive: whether it belongs to the cluster. A node without work that is drained is dead at
            once, although its container goes on running.
        head: whether it is the head.
        started: when it joined; None in an old Ray.
        message: why it is dead; empty if it is alive.
    """

    id: str
    address: str
    alive: bool
    head: bool = False
    started: datetime | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class RayNodes:
    """The nodes of a cluster.

    Attributes:
        by_address: the newest node at each IP address.
    """

    by_address: Mapping[str, RayNode] = field(default_factory=dict[str, RayNode])

    @classmethod
    def of(cls, nodes: Iterable[RayNode]) -> RayNodes:
        """Of all nodes, dead ones included, in any order."""
        return cls({node.address: node for node in sorted(nodes, key=_age) if node.address})

    def at(self, address: str, since: datetime) -> RayNode | None:
        """The newest node at a pod's IP address, unless it joined before the pod was created.

        An address may have belonged to another pod before, whose node Ray may still list as alive.
        """
        node = self.by_address.get(address)
        if node is None or (node.started is not None and node.started < since):
            return None
        return node


class _Node(msgspec.Struct):
    node_id: str
    state: str
    node_ip: str | None = None
    is_head_node: bool = False
    state_message: str | None = None
    start_time_ms: int | None = None


class _Listing(msgspec.Struct):
    total: int
    result: list[_Node]


class _Data(msgspec.Struct):
    result: _Listing


class _Nodes(msgspec.Struct):
    result: bool
    data: _Data


_nodes = msgspec.json.Decoder(_Nodes)


def nodes(answer: DashboardResponse) -> RayNodes:
    """The response to `GET /api/v0/nodes`.

    Raises:
        UnusableResponse: it is no list of nodes, or not a whole one.
    """
    found = decoded(answer, _nodes)
    listing = found.data.result
    if not found.result or len(listing.result) < listing.total:
        raise UnusableResponse(f"Ray lists {len(listing.result)} of {listing.total} nodes")
    return RayNodes.of(map(_node, listing.result))


def _node(found: _Node) -> RayNode:
    if found.state not in _STATES:
        raise UnusableResponse(bounded(f"node {found.node_id} is in no known state: {found.state}"))
    return RayNode(
        id=bounded(found.node_id),
        address=bounded(found.node_ip or ""),
        alive=found.state == _ALIVE,
        head=found.is_head_node,
        started=moment(found.start_time_ms),
        message=bounded(found.state_message or ""),
    )


def _age(node: RayNode) -> tuple[float, bool, str]:
    """Sorts the newest last; of two that are equally old the one that is alive."""
    return (node.started.timestamp() if node.started else 0.0, node.alive, node.id)
