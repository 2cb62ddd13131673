"""Planning time of one RayCluster with 5,000 workers, in milliseconds.

The cache is a plain list of decoded pods, so that what is measured is observing and planning
alone. Each situation is planned several times and the best is taken: the first plan of a new
object also builds its pod templates, and is measured on its own.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from controller.command.planning.snapshot import Snapshot
from controller.kube.objects import Pod, PodStatus
from controller.kube.resources import PODS, Resource
from controller.ray.api import RAYCLUSTERS, RayCluster
from controller.ray.cluster import RayClusterKind
from controller.runtime.kind import Unreadable

WORKERS = 5000
ROUNDS = 5
NOW = datetime(2026, 8, 20, 10, 0, tzinfo=UTC)
OWNER = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "big", "uid": "u"}


class FixedCache(Snapshot):
    """One cluster and its pods."""

    def __init__(self, cluster: RayCluster, pods: list[Pod]) -> None:
        super().__init__([], now=NOW)
        self.cluster = cluster
        self.pods = pods

    def get(self, resource: Resource[Any], key: str) -> Any:
        """Only the cluster can be got by name: names of new pods are free."""
        return self.cluster if resource is RAYCLUSTERS and key == "default/big" else None

    def unreadable(self, resource: Resource[Any], namespace: str) -> dict[str, Unreadable]:
        """All pods are decoded."""
        del resource, namespace
        return {}

    def by_index(self, resource: Resource[Any], index: str, value: str) -> list[Any]:
        """All pods belong to the cluster."""
        return self.pods if resource is PODS and (index, value) == ("owner", "u") else []


def cluster(replicas: int) -> RayCluster:
    """A stored RayCluster that wants this many workers."""
    container = {"name": "ray", "image": "ray", "resources": {"limits": {"cpu": "1"}}}
    template = {"spec": {"containers": [container]}}
    group = {
        "groupName": "workers",
        "replicas": replicas,
        "minReplicas": 0,
        "maxReplicas": 100_000,
        "template": template,
    }
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": [group]}
    metadata = {"name": "big", "namespace": "default", "uid": "u", "generation": 1}
    return msgspec.convert({"metadata": metadata, "spec": spec}, RayCluster)


def pods(count: int) -> list[Pod]:
    """A ready head and this many ready workers."""
    return [_pod("big-head-x", "head", "headgroup")] + [
        _pod(f"big-workers-worker-{number:05d}", "worker", "workers") for number in range(count)
    ]


def _starting(pod: Pod) -> Pod:
    """The pod as it is when nobody has done anything about it yet."""
    return msgspec.structs.replace(pod, status=PodStatus(phase="Pending"))


def _pod(name: str, role: str, group: str) -> Pod:
    labels = {"ray.io/cluster": "big", "ray.io/node-type": role, "ray.io/group": group}
    conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": labels,
            "creationTimestamp": "2026-08-20T09:00:00Z",
            "ownerReferences": [OWNER | {"controller": True}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "ray"}]},
        "status": {"phase": "Running", "conditions": conditions},
    }
    return msgspec.convert(body, Pod)


def planning_ms(cache: FixedCache, kind: RayClusterKind) -> float:
    """One observation and plan, milliseconds."""
    begin = time.process_time()
    seen = kind.observe("default/big", cache)
    assert seen is not None
    kind.plan(seen, NOW)
    return (time.process_time() - begin) * 1000


def run() -> dict[str, float]:
    """Milliseconds a plan takes, by situation."""
    full = pods(WORKERS)
    head, *workers = full
    starting = [head, *map(_starting, workers)]
    situations = {
        "5,000 workers, nothing to do: ms": FixedCache(cluster(WORKERS), full),
        "5,000 workers, none there yet: ms": FixedCache(cluster(WORKERS), []),
        "5,000 workers, none ready yet: ms": FixedCache(cluster(WORKERS), starting),
        "5,000 workers, 2,500 too many: ms": FixedCache(cluster(WORKERS // 2), full),
    }
    results: dict[str, float] = {}
    for name, cache in situations.items():
        kind = RayClusterKind()
        first = planning_ms(cache, kind)
        results[name] = min(planning_ms(cache, kind) for _ in range(ROUNDS))
        results[f"{name}, first plan of the object"] = first
    return results


if __name__ == "__main__":
    for situation, milliseconds in run().items():
        print(f"{situation:<40}{milliseconds:8.1f}")
