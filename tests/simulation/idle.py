"""Everything about idle clusters and budgets in one life: who uses them, and what must not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import World, cluster_of, is_ready
from tests.integration.rays import Rays
from tests.ray.dashboard.simulated import Incarnation
from tests.simulation.referee import ACTOR, LATE
from tests.simulation.rolling import RollingOfLife
from tests.simulation.scenario import Scenario, Use
from tests.simulation.user import NAMES

Object = dict[str, Any]

NOTICED = 45.0
"""Seconds after which a use must be known: Ray is asked every 30 s, and an answer is acted on."""

BUDGETS = "poddisruptionbudgets.policy"
CLUSTERS = "rayclusters.ray.io"


@dataclass
class Interval:
    """A use of a cluster; `end` is None while it lasts."""

    place: Incarnation
    start: float
    end: float | None = None


class IdleOfLife(RollingOfLife):
    """The users of the clusters of a world, and a referee.

    No cluster may end while it is used, nor within its timeout after that, and no budget may go
    from a cluster that is used. A use that began a moment ago may not be known yet.
    """

    def __init__(self, world: World, scenario: Scenario, violations: list[str]) -> None:
        super().__init__(world, scenario)
        self._violations = violations
        self._heads = Rays(world)
        self._uses: dict[str, list[Interval]] = {}  # by uid of the cluster
        self._peace = False

    def use(self, action: Use) -> None:
        """Connect a driver to a cluster now, or so long before the cluster would end."""
        wait = 0.0
        if action.before is not None:
            ends = [each.end for each in self._of(action) if each.end is not None]
            timeout = self._timeout(NAMES[action.cluster])
            wait = max(ends, default=0.0) + timeout - action.before - self._world.loop.time()
        self._world.loop.call_later(max(wait, 0.0), self._connect, action)

    def make_peace(self) -> None:
        """From now on nobody uses anything."""
        self._peace = True
        for uses in self._uses.values():
            for each in uses:
                self._end_use(each)
        super().make_peace()

    def saw(self, event: StoredEvent) -> None:
        super().saw(event)
        obj, now = event.current.object, self._world.loop.time()
        if event.table == "pods":
            for each in (each for uses in self._uses.values() for each in uses):
                if each.end is None and not self.ray.has_head(each.place):
                    each.end = now  # its head has died with its driver
        elif event.table == CLUSTERS and event.previous is not None:
            before = event.previous.object["spec"].get("idleSuspend")
            if obj["spec"].get("idleSuspend") and not before:
                self._judge(obj, "was suspended as idle", within=_timeout_of(obj))
        elif event.table == BUDGETS and event.type == "DELETED":
            for owner in obj["metadata"].get("ownerReferences", ()):
                cluster = self._cluster(owner["name"])
                if cluster is not None and not is_ending(cluster):
                    self._judge(cluster, f"lost budget {obj['metadata']['name']}", within=0.0)

    def shortcomings(self, objects: Callable[[str], list[Object]]) -> list[str]:
        """What is not as it should be when nobody uses anything any more."""
        wrong = [
            f"{each['metadata']['name']} is not suspended, and nobody uses it"
            for each in objects(CLUSTERS)
            if _timeout_of(each) and not is_ending(each)
        ]
        return wrong + [f"budget {each['metadata']['name']} is left" for each in objects(BUDGETS)]

    def leaks(self) -> list[str]:
        """Nothing: a cluster that is not suspended is asked as long as it is there."""
        return []

    def _judge(self, cluster: Object, what: str, *, within: float) -> None:
        """Blame an operator if a use that it must know is going on, or ended too short ago."""
        now, actor = self._world.loop.time(), ACTOR.get()
        if not actor.startswith("operator") or actor.endswith(LATE):
            return
        for use in self._uses.get(cluster["metadata"]["uid"], ()):
            is_recent = use.end is None or use.end > now - within
            if use.start <= now - NOTICED and is_recent:
                self._violations.append(
                    f"{now:.3f} s: {cluster['metadata']['name']} {what}; it was used from "
                    f"{use.start:.3f} s to {use.end}"
                )

    def _connect(self, action: Use) -> None:
        for pod in self._heads.heads():
            owner = pod.metadata.controller
            is_live = is_ready(pod) and not pod.metadata.terminating
            if self._peace or owner is None or not is_live:
                continue
            if cluster_of(pod) != NAMES[action.cluster]:
                continue
            place = self.ray.live(self._heads.head_of(pod))
            if place is None or not self.ray.has_head(place):
                continue
            use = Interval(place, self._world.loop.time())
            self._uses.setdefault(owner.uid, []).append(use)
            self.ray.connect_driver(place)
            self._world.loop.call_later(action.lasts, self._end_use, use)

    def _end_use(self, use: Interval) -> None:
        if use.end is not None:
            return
        use.end = self._world.loop.time()
        uses = (each for found in self._uses.values() for each in found)
        if all(each.end is not None for each in uses if each.place == use.place):
            self.ray.disconnect_driver(use.place)

    def _of(self, action: Use) -> list[Interval]:
        cluster = self._cluster(NAMES[action.cluster])
        return self._uses.get(cluster["metadata"]["uid"], []) if cluster else []

    def _timeout(self, name: str) -> float:
        cluster = self._cluster(name)
        return _timeout_of(cluster) if cluster else 0.0

    def _cluster(self, name: str) -> Object | None:
        assert self._world.server is not None
        items = self._world.server.store.table(CLUSTERS).items
        item = items.get(f"{self._world.namespace}/{name}")
        return item.object if item else None


def _timeout_of(cluster: Object) -> float:
    return cluster["spec"].get("idleTerminationOptions", {}).get("timeoutSeconds", 0)


def is_ending(cluster: Object) -> bool:
    """Whether it is suspended or deleted, or about to be."""
    spec = cluster["spec"]
    is_deleted = bool(cluster["metadata"].get("deletionTimestamp"))
    return bool(spec.get("suspend") or spec.get("idleSuspend")) or is_deleted or _halted(cluster)


def _halted(cluster: Object) -> bool:
    conditions = cluster.get("status", {}).get("conditions", ())
    halts = {"RayClusterSuspending", "RayClusterSuspended"}
    return any(each["type"] in halts and each["status"] == "True" for each in conditions)
