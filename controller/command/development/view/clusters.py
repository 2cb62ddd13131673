"""The RayClusters and pods that a view shows, and all that there ever were."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from controller.command.development.view.changes import Changes
from controller.command.development.view.pods import pod_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from controller.command.development.view.screens import Screen
    from controller.kube.objects import Pod
    from controller.ray.api import RayCluster

T = TypeVar("T")


class ClustersView(ABC):
    """The current state of clusters and pods, updated by informer handlers.

    Attributes:
        clusters: by key, all that exist now.
        pods: by key, all that exist now.
        clusters_seen: names of all clusters seen so far.
        pods_seen: keys of all pods seen so far.
    """

    def __init__(self, screen: Screen) -> None:
        self.clusters: dict[str, RayCluster] = {}
        self.pods: dict[str, Pod] = {}
        self.clusters_seen: set[str] = set()
        self.pods_seen: set[str] = set()
        self._screen = screen
        self._changes = Changes()

    def saw_cluster(self, key: str, cluster: RayCluster | None) -> None:
        """Update a cluster; None once it is deleted."""
        before = _cluster_state(_replace(self.clusters, self.clusters_seen, key, cluster))
        self._show_change(f"cluster {key.partition('/')[2]}", before, _cluster_state(cluster))

    def saw_pod(self, key: str, pod: Pod | None) -> None:
        """Update a pod; None once it is deleted."""
        before = pod_state(_replace(self.pods, self.pods_seen, key, pod))
        self._show_change(f"pod {key.partition('/')[2]}", before, pod_state(pod))

    async def until(self, reached: Callable[[Self], bool]) -> None:
        """Wait until the state satisfies `reached`. The caller sets the time limit."""
        await self._changes.until(lambda: reached(self))

    def _show_change(self, subject: str, before: str, state: str) -> None:
        if state != before:
            self._screen.change(f"{subject}: {state}")
        self._redraw()

    def _redraw(self) -> None:
        self._screen.draw(self._picture)
        self._changes.notify()

    @abstractmethod
    def _picture(self) -> Any:
        """Return something that `rich` can render."""


def _replace(known: dict[str, T], seen: set[str], key: str, new: T | None) -> T | None:
    """Store `new` under `key`, or remove the key where it is None; returns what was there."""
    before = known.pop(key, None)
    if new is not None:
        known[key] = new
        seen.add(key)
    return before


def _cluster_state(cluster: RayCluster | None) -> str:
    if cluster is None:
        return "gone"
    if cluster.metadata.terminating:
        return "Terminating"
    return str(cluster.status.get("state") or "not ready")
