"""One RayCluster whose workers are replaced: their numbers by version, and which are drained."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controller.apimachinery.custom_object import conditions_of
from controller.apimachinery.timestamps import parse_rfc3339
from controller.command.development.view.cluster import ClusterView
from controller.command.development.view.pods import pod_state, role_of
from controller.ray.api.labels import DRAINING_SINCE, GROUP

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from controller.command.development.view.screens import Screen
    from controller.kube.objects import Pod
    from controller.ray.api import RayCluster

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
