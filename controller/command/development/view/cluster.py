"""One RayCluster, its pods and its conditions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from controller.apimachinery.conditions import parse_rfc3339
from controller.apimachinery.custom_object import conditions_of
from controller.command.development.view.screens import Changes, pod_state, pods_table, role_of
from controller.ray.api.labels import DRAINING_SINCE, GROUP

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

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

    def is_ready(self) -> bool:
        """Return whether the condition `Ready` is true."""
        return _conditions(self.cluster).get("Ready", {}).get("status") == "True"

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


# One RayCluster whose workers are replaced: their numbers by version, and which are drained.

UPGRADING = "Upgrading"


class RollingView(ClusterView):
    """The current state of one cluster that is upgraded.

    Args:
        name: name of the cluster.
        screen: where changes are shown.
        version: label of a pod that says its version.
        progress: a sentence about what else has changed, shown with the counts.

    Attributes:
        seen: every worker there ever was, as it was last, by its key.
        draining: when the drain of each worker began, by its key.
        most: how many workers of each group there were at most.
        fewest: how many of them could take work at least, since `count_fewest`.
    """

    def __init__(
        self, name: str, screen: Screen, *, version: str, progress: Callable[[], str]
    ) -> None:
        super().__init__(name, screen)
        self.seen: dict[str, Pod] = {}
        self.draining: dict[str, datetime] = {}
        self.most: dict[str, int] = {}
        self.fewest: dict[str, int] = {}
        self._version = version
        self._progress = progress
        self._said = ""
        self._counted = ""

    def saw_cluster(self, key: str, cluster: RayCluster | None) -> None:
        """Update the cluster, and show the progress of its upgrade."""
        super().saw_cluster(key, cluster)
        said = self.upgrade()
        if said and said != self._said:
            self._screen.change(f"{UPGRADING}: {said}")
        self._said = said

    def saw_pod(self, key: str, pod: Pod | None) -> None:
        """Update a pod, and show the workers of its group."""
        since = (pod.metadata.annotations or {}).get(DRAINING_SINCE) if pod else None
        if since and key not in self.draining:
            self.draining[key] = parse_rfc3339(since)
            self._screen.change(f"pod {key.partition('/')[2]}: draining since {since}")
        super().saw_pod(key, pod)
        if pod is not None and role_of(pod) == "worker":
            self.seen[key] = pod
        self._count_extremes()
        counted = self.counts()
        if counted != self._counted:
            self._screen.change(f"{counted or 'no workers'}; {self._progress()}")
        self._counted = counted

    def upgrade(self) -> str:
        """Return status, reason and message of the condition `Upgrading`; empty without it."""
        for condition in conditions_of(self.cluster) if self.cluster else ():
            if condition.get("type") == UPGRADING:
                status, reason = condition.get("status"), condition.get("reason")
                return f"{status} ({reason}) {condition.get('message', '')}".rstrip()
        return ""

    def counts(self) -> str:
        """Return the numbers of workers of each version that are ready, draining, and neither."""
        groups: dict[str, Counter[str]] = {}
        for key, pod in sorted(self.pods.items()):
            if role_of(pod) == "worker":
                group = groups.setdefault(self.group(pod), Counter())
                group[f"{self.version(pod)} {self._state(key, pod)}"] += 1
        return "; ".join(
            f"{name}: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
            for name, states in sorted(groups.items(), reverse=True)
        )

    def count_fewest(self) -> None:
        """Record from now on the fewest workers of each group: all groups are complete."""
        self.fewest = {group: len(self.takes_work(group)) for group in self.most}

    def takes_work(self, group: str, version: str = "") -> list[Pod]:
        """Return the ready workers of a group that are not draining, of one version or all."""
        return [
            pod
            for key, pod in self.pods.items()
            if role_of(pod) == "worker"
            and self.group(pod) == group
            and version in {"", self.version(pod)}
            and self._state(key, pod) == "ready"
        ]

    def version(self, pod: Pod) -> str:
        """Return the version that a pod says it has."""
        return (pod.metadata.labels or {}).get(self._version, "")

    @staticmethod
    def group(pod: Pod) -> str:
        """Return the group of a pod."""
        return (pod.metadata.labels or {}).get(GROUP, "")

    def _count_extremes(self) -> None:
        workers = [pod for pod in self.pods.values() if role_of(pod) == "worker"]
        for group, count in Counter(map(self.group, workers)).items():
            self.most[group] = max(count, self.most.get(group, 0))
        for group, fewest in self.fewest.items():
            self.fewest[group] = min(fewest, len(self.takes_work(group)))

    def _state(self, key: str, pod: Pod) -> str:
        if pod.metadata.terminating:
            return "ending"
        if key in self.draining:
            return "draining"
        return "ready" if pod_state(pod) == "Ready" else "starting"
