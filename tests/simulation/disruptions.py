"""Nodes are taken away under clusters in use: what no operator may do to the pods on them."""

from __future__ import annotations

from typing import Any

from controller.ray.api import labels
from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import World
from tests.simulation.idle import NOTICED, IdleOfLife, is_ending
from tests.simulation.referee import ACTOR, LATE
from tests.simulation.scenario import Scenario

Object = dict[str, Any]


class DisruptionsOfLife(IdleOfLife):
    """The users of the clusters of a world whose nodes come and go, and a referee.

    In these lives nobody scales a cluster or edits it. So the operator has no reason to delete a
    worker that will stay, such as a replacement, nor one that still works in Ray, nor a head: the
    budgets are what lets its node be emptied, or not.
    """

    def __init__(self, world: World, scenario: Scenario, violations: list[str]) -> None:
        super().__init__(world, scenario, violations)
        self._left: dict[str, float] = {}  # until when nodes were about to go, by name

    def saw(self, event: StoredEvent) -> None:
        super().saw(event)
        actor, obj = ACTOR.get(), event.current.object
        if event.table == "nodes":
            if _is_leaving(obj):
                self._left[event.key] = float("inf")
            elif self._left.get(event.key) == float("inf"):
                self._left[event.key] = self._world.loop.time()
        if event.table != "pods" or event.previous is None or actor.endswith(LATE):
            return
        before = event.previous.object
        goes = event.type == "DELETED" or _is_going(obj)
        if actor.startswith("operator") and goes and not _is_going(before):
            self._judge_end(before)
        if is_marked(obj) and not is_marked(before):
            self._judge_mark(obj)

    def _judge_mark(self, pod: Object) -> None:
        """An operator says that others take it away; it may not have seen yet that they do not."""
        until = self._left.get(pod["spec"]["nodeName"], 0.0)
        if not is_taken_away(pod) and until < self._world.loop.time() - NOTICED:
            self._blame(f"{pod['metadata']['name']} is drained, and nobody takes it away")

    def _judge_end(self, pod: Object) -> None:
        meta = pod["metadata"]
        cluster = self._cluster(meta["labels"].get(labels.CLUSTER, ""))
        is_running = pod.get("status", {}).get("phase") == "Running"
        if cluster is None or is_ending(cluster) or not is_running or has_ended(pod):
            return
        now, works_until = self._world.loop.time(), self.ray.work.get(meta["uid"], 0.0)
        if not is_marked(pod):
            self._blame(f"{meta['name']} was deleted, and nobody takes it away")
        elif meta["labels"].get(labels.NODE_TYPE) == labels.HEAD:
            self._blame(f"head {meta['name']} was deleted before those who take it away did that")
        elif works_until > now:
            self._blame(f"{meta['name']} was deleted, and has work until {works_until:.3f} s")

    def _blame(self, what: str) -> None:
        self._violations.append(f"{self._world.loop.time():.3f} s, {ACTOR.get()}: {what}")


def is_taken_away(pod: Object) -> bool:
    """Whether it has the condition of pods that others evict."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(e["type"] == "DisruptionTarget" and e["status"] == "True" for e in conditions)


def has_ended(pod: Object) -> bool:
    """Whether a container of it does not run any more."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return any("running" not in each.get("state", {}) for each in statuses)


def _is_leaving(node: Object) -> bool:
    return bool(node["spec"].get("unschedulable") or node["spec"].get("taints"))


def is_marked(pod: Object) -> bool:
    """Whether an operator says that others take it away."""
    return labels.DISRUPTION in pod["metadata"].get("annotations", {})


def _is_going(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]
