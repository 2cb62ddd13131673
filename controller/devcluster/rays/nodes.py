"""The nodes of a simulated Ray: they join with their pods, and end when they are drained.

As real Ray 2.60 does it: a node without work that is drained is dead at once, and its container
goes on running; one with work takes nothing new and is dead when its work has ended, which for an
actor may be never. Nothing happens at the deadline.
"""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.devcluster.rays.serve import json_answer
from controller.ray.dashboard import PURPOSE, REASON_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from controller.devcluster.rays.serve import Answer


@dataclass(frozen=True)
class NodePod:
    """A Ray container that has joined. Another start of it is another node."""

    uid: str
    address: str
    started: datetime
    restarts: int = 0
    head: bool = False

    @property
    def node_id(self) -> str:
        """Ray's id of the node."""
        return hashlib.sha224(f"{self.uid}-{self.restarts}".encode()).hexdigest()


@dataclass
class SimulatedNodes:
    """The nodes of one head incarnation.

    Attributes:
        work: until when a node has work, by the uid of its pod.
        drained: when each node was told to drain, by its id.
    """

    work: dict[str, float] = field(default_factory=dict[str, float])
    drained: dict[str, float] = field(default_factory=dict[str, float])
    _known: dict[str, NodePod] = field(default_factory=dict[str, NodePod])

    def drain(self, body: dict[str, Any], at: float) -> None:
        """Let the nodes drain that a job names, which succeeds at this time."""
        for node in drained_by(body):
            self.drained[node] = min(at, self.drained.get(node, at))

    def state(self, pods: Iterable[NodePod], now: float) -> Answer:
        """Return the answer to `GET /api/v0/nodes`."""
        present = {pod.node_id: pod for pod in pods}
        self._known |= present
        rows = [
            self._row(node, pod, now, present=node in present)
            for node, pod in sorted(self._known.items())
        ]
        listing = {"total": len(rows), "result": rows}
        body = {"result": True, "msg": "", "data": {"result": listing}}
        return json_answer(body)

    def _row(self, node: str, pod: NodePod, now: float, *, present: bool) -> dict[str, Any]:
        told = self.drained.get(node)
        ended = told is not None and max(told, self.work.get(pod.uid, told)) <= now
        reason = f"Terminated due to preemption: {REASON_MESSAGE}" if ended else "Unexpected"
        alive = present and not ended
        return {
            "node_id": node,
            "node_ip": pod.address,
            "is_head_node": pod.head,
            "state": "ALIVE" if alive else "DEAD",
            "state_message": None if alive else reason,
            "start_time_ms": int(pod.started.timestamp() * 1000),
        }


def drained_by(body: dict[str, Any]) -> list[str]:
    """Return the nodes that a submitted job drains; none if it does something else."""
    metadata: dict[str, str] = body.get("metadata") or {}
    if metadata.get(PURPOSE) != "drain":
        return []
    return shlex.split(body["entrypoint"])[5:]
