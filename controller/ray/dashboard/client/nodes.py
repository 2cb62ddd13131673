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
"""Maximum nodes that Ray lists; it refuses a larger limit."""

_ALIVE: Final = "ALIVE"
_STATES: Final = frozenset({_ALIVE, "DEAD"})


@dataclass(frozen=True, slots=True)
class RayNode:
    """One node in the view of the GCS. Ray reports neither draining nor load of a node.

    Attributes:
        id: in hexadecimal digits. A container that restarts becomes another node.
        address: its IP address, which is that of its pod.
        alive: whether it belongs to the cluster. A drained node without work is dead at once,
            although its container continues to run.
        head: whether it is the head.
        started: time when it joined; None in an old Ray.
        message: reason of its death; empty if it is alive.
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
        """Return the values for nodes in any order, including dead ones."""
        return cls({node.address: node for node in sorted(nodes, key=_age) if node.address})

    def at(self, address: str, since: datetime) -> RayNode | None:
        """Return the newest node at a pod's IP address, unless it is older than the pod.

        The address may have belonged to an earlier pod, whose node Ray may still list as alive.
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
    """Parse the response to `GET /api/v0/nodes`.

    Raises:
        UnusableResponse: it is not a list of nodes, or an incomplete one.
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
    """Return a sort key that puts the newest last, and of two equally old ones the one alive."""
    return (node.started.timestamp() if node.started else 0.0, node.alive, node.id)
