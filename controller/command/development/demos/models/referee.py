"""The referee of the Workspace demo: it sees every write, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.kaito.api.karpenter import NODE_CLAIMS, NODES
from controller.kube.resources import STATEFUL_SETS

if TYPE_CHECKING:
    from controller.devcluster.apiserver import StoredEvent

_CLAIMS: Final = 2  # the first is out of stock
_GPU: Final = "nvidia.com/gpu"


class WorkspaceReferee:
    """Detects a surplus claim, and a server whose node has no GPUs yet."""

    def __init__(self) -> None:
        self._present: set[str] = set()
        self._made = 0
        self._most = 0
        self._has_gpus = False
        self._came_early = False

    def __call__(self, event: StoredEvent) -> None:
        """Check a write."""
        obj = event.current.object
        if event.table == str(NODE_CLAIMS):
            self._count(obj["metadata"]["name"], event)
        elif event.table == str(NODES):
            self._has_gpus |= _GPU in _capacity(obj)
        elif event.table == str(STATEFUL_SETS) and event.previous is None:
            self._came_early |= not self._has_gpus

    def _count(self, name: str, event: StoredEvent) -> None:
        self._made += event.previous is None
        if event.type == "DELETED":
            self._present.discard(name)
        else:
            self._present.add(name)
        self._most = max(self._most, len(self._present))

    def wrong(self) -> list[str]:
        """Return sentences about observed violations."""
        found: list[str] = []
        if (self._made, self._most) != (_CLAIMS, 1):
            found.append(
                f"{self._made} claims were created, {self._most} at a time, instead of {_CLAIMS}, "
                "one after the other"
            )
        if self._came_early:
            found.append("the server was created before its node offered GPUs")
        return found


def _capacity(node: dict[str, Any]) -> dict[str, Any]:
    return node.get("status", {}).get("capacity") or {}
