"""One RayCluster, its pods and its conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.custom_object import conditions_of
from controller.command.development.view.changes import Changes
from controller.command.development.view.pods import pod_state, pods_table, role_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.command.development.view.screens import Screen
    from controller.kube.objects import Pod
    from controller.ray.api import RayCluster


class ClusterView:
    """The current state of one cluster, updated by informer handlers."""

    def __init__(self, name: str, screen: Screen) -> None:
        self.name = name
        self.cluster: RayCluster | None = None
        self.pods: dict[str, Pod] = {}
        self._screen = screen
        self._changes = Changes()

    def saw_cluster(self, key: str, cluster: RayCluster | None) -> None:
        """Update the cluster; None once it is deleted."""
        if key.partition("/")[2] != self.name:
            return
        before, self.cluster = self.cluster, cluster
        for line in _cluster_changes(before, cluster):
            self._screen.change(line)
        self._redraw()

    def saw_pod(self, key: str, pod: Pod | None) -> None:
        """Update a pod; None once it is deleted."""
        before = self.pods.pop(key, None)
        if pod is not None:
            self.pods[key] = pod
        old, new = pod_state(before), pod_state(pod)
        if old != new:
            self._screen.change(f"pod {key.partition('/')[2]}: {new}")
        self._redraw()

    async def until(self, reached: Callable[[ClusterView], bool]) -> None:
        """Wait until the state satisfies `reached`. The caller sets the time limit."""
        await self._changes.until(lambda: reached(self))

    def refresh(self) -> None:
        """Wake waiting tasks: something outside the view has changed."""
        self._changes.notify()

    def state(self) -> str:
        """Return `status.state` of the cluster, empty if there is none yet."""
        return str(self.cluster.status.get("state", "")) if self.cluster else ""

    def workers(self, *, ready: bool = False) -> list[Pod]:
        """Return the worker pods that are not terminating, or only the ready ones."""
        live = [
            pod
            for pod in self.pods.values()
            if role_of(pod) == "worker" and not pod.metadata.terminating
        ]
        return [pod for pod in live if pod_state(pod) == "Ready"] if ready else live

    def _redraw(self) -> None:
        self._screen.draw(self._picture)
        self._changes.notify()

    def _picture(self) -> Any:
        from rich.console import Group  # noqa: PLC0415  an extra
        from rich.table import Table  # noqa: PLC0415

        title = self.state() or ("not ready" if self.cluster else "gone")
        conditions = Table(min_width=72)
        for column in ("condition", "status", "reason"):
            conditions.add_column(column)
        for name, condition in sorted(_conditions(self.cluster).items()):
            conditions.add_row(name, str(condition.get("status")), str(condition.get("reason")))
        return Group(pods_table(f"RayCluster {self.name}: {title}", self.pods), conditions)


def _conditions(cluster: RayCluster | None) -> dict[str, dict[str, Any]]:
    listed = conditions_of(cluster) if cluster else []
    return {str(condition.get("type")): condition for condition in listed}


def _cluster_changes(before: RayCluster | None, after: RayCluster | None) -> list[str]:
    if after is None:
        return ["cluster: gone"]
    lines: list[str] = []
    if before is None:
        lines.append(f"cluster {after.metadata.name}: created")
    old, new = _conditions(before), _conditions(after)
    for name, condition in new.items():
        if old.get(name, {}).get("status") != condition.get("status"):
            lines.append(f"condition {name}={condition.get('status')} ({condition.get('reason')})")
    state = after.status.get("state", "")
    if state != (before.status.get("state", "") if before else ""):
        lines.append(f"cluster state: {state or '-'}")
    return lines
