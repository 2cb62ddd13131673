"""Watches every transition of the store and writes down what no operator may ever do.

It sees the truth at once; an operator sees it late. So an operator may act on the specification
that it had observed when it first sent a write, and on pods that it cannot yet know to have ended.
Nothing else excuses it.
"""

from __future__ import annotations

from collections import defaultdict
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.kube.resources import PODS

if TYPE_CHECKING:
    import asyncio

    from controller.devcluster.apiserver.store import StoredEvent
    from controller.runtime.reads import OverlaidReads

ACTOR: ContextVar[str] = ContextVar("actor", default="")
"""Who makes the request that is being served: the name of an operator, or nobody of note."""

LATE = " (late)"
"""End of the actor's name if its request was delayed: whoever sent it may have given up on it,
repeated it, and undone what it did. Nothing in the API prevents that its pod then comes back."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a RayCluster asks for."""

    generation: int
    replicas: dict[str, int]
    named: frozenset[str]
    everything_goes: bool


@dataclass(frozen=True, slots=True)
class Intent:
    """What an operator knew when it first sent a write.

    Attributes:
        generation: of the cluster as it had observed it.
        time: when that was.
        ghosts: pods of the group that it believed alive and that had ended.
    """

    generation: int
    time: float
    ghosts: int = 0


@dataclass(slots=True)
class Cluster:
    """A RayCluster, the present one or an earlier namesake."""

    name: str = ""
    wishes: list[Wish] = field(default_factory=list)
    suspending: bool = False
    ends: list[tuple[float, str]] = field(default_factory=list)  # of pods, not by an operator

    def wishes_since(self, intent: Intent) -> list[Wish]:
        """The one that the operator knew and all later ones."""
        return [wish for wish in self.wishes if wish.generation >= intent.generation]

    def ended_since(self, group: str, intent: Intent) -> int:
        """Pods of the group that have ended since then."""
        return sum(where == group and when >= intent.time for when, where in self.ends)


@dataclass(frozen=True, slots=True)
class Seen:
    """A Ray pod at one moment."""

    uid: str
    name: str
    owner: str
    cluster: str
    group: str
    head: bool
    terminating: bool
    ended: bool

    @property
    def live(self) -> bool:
        return not self.terminating and not self.ended


class Referee:
    """Keeps its own books from the store's transitions.

    Attributes:
        violations: sentences; nothing in here means that the operators behaved.
        pods: the Ray pods that exist, by uid.
        clusters: all RayClusters that ever were, by uid.
        observed: generation of each cluster that the operator has last observed, by uid.
        two_heads: seconds in which a cluster had two live heads, the longest stretch.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, strict: bool = True) -> None:
        self._loop = loop
        self._strict = strict
        self._names: set[str] = set()
        self._intents: dict[tuple[str, str], Intent] = {}
        self._deleted: set[str] = set()
        self._present: set[str] = set()
        self._doubled: dict[str, float] = {}
        self.violations: list[str] = []
        self.pods: dict[str, Seen] = {}
        self.clusters: defaultdict[str, Cluster] = defaultdict(Cluster)
        self.observed: dict[str, int] = {}
        self.two_heads = 0.0

    def __call__(self, event: StoredEvent) -> None:
        if event.table == "rayclusters.ray.io":
            self._cluster(event)
        elif event.table == "pods" and "ray.io/cluster" in _labels(event.current.object):
            self._pod(event)

    def sends_create(self, name: str, owner: str) -> None:
        """An operator sends a create, perhaps not for the first time."""
        intent = Intent(self.observed[owner], self._loop.time())
        self._intents.setdefault(("create", name), intent)

    def sends_delete(self, name: str, reads: OverlaidReads) -> None:
        """An operator to which the world looks like this sends a delete."""
        doomed = next((pod for pod in self.pods.values() if pod.name == name), None)
        if doomed is None:
            return
        ghosts = 0
        for pod in reads.by_index(PODS, "owner", doomed.owner):
            meta = pod.metadata
            truth = self.pods.get(meta.uid)
            of_group = (meta.labels or {}).get("ray.io/group") == doomed.group
            alive = truth is not None and not truth.terminating
            ghosts += (
                of_group and not meta.terminating and not alive and meta.uid not in self._deleted
            )
        intent = Intent(self.observed[doomed.owner], self._loop.time(), ghosts)
        self._intents.setdefault(("delete", name), intent)

    def workers(self, owner: str, group: str) -> list[Seen]:
        """The pods of a group, those that have ended or are going included."""
        return [
            pod
            for pod in self.pods.values()
            if pod.owner == owner and pod.group == group and not pod.head
        ]

    def _cluster(self, event: StoredEvent) -> None:
        obj = event.current.object
        uid = obj["metadata"]["uid"]
        (self._present.discard if event.type == "DELETED" else self._present.add)(uid)
        cluster = self.clusters[uid]
        cluster.name = obj["metadata"]["name"]
        conditions = obj.get("status", {}).get("conditions", [])
        cluster.suspending = any(
            c["type"] == "RayClusterSuspending" and c["status"] == "True" for c in conditions
        )
        spec = obj["spec"]
        groups = {group["groupName"]: group for group in spec.get("workerGroupSpecs", [])}
        strategies = (group.get("scaleStrategy", {}) for group in groups.values())
        cluster.wishes.append(
            Wish(
                obj["metadata"]["generation"],
                {n: 0 if g.get("suspend") else g["replicas"] for n, g in groups.items()},
                frozenset(n for s in strategies for n in s.get("workersToDelete", ())),
                bool(spec.get("suspend")) or "deletionTimestamp" in obj["metadata"],
            )
        )

    def _pod(self, event: StoredEvent) -> None:
        pod = _seen(event.current.object)
        before = self.pods.get(pod.uid)
        if event.type == "DELETED":
            self.pods.pop(pod.uid, None)
        else:
            self.pods[pod.uid] = pod
        if before is None and event.type == "ADDED":
            self._appeared(pod)
        elif before is not None and before.live and (event.type == "DELETED" or not pod.live):
            self._ended(before, pod, gone=event.type == "DELETED")
        elif before is not None and not before.terminating and pod.terminating:
            self._ended(before, pod, gone=False)
        self._count_heads(pod.cluster)

    def _appeared(self, pod: Seen) -> None:
        if ACTOR.get().endswith(LATE) and pod.name in self._names:
            return
        if pod.name in self._names and pod.owner in self._present:
            self._blame(f"the name {pod.name} was used twice")
        self._names.add(pod.name)
        if not self._strict:
            return
        if pod.head:
            others = [o.name for o in self.pods.values() if o.head and o.owner == pod.owner]
            if len(others) > 1:
                self._blame(f"head {pod.name} was made beside {sorted(others)}")
            return
        wishes = self.clusters[pod.owner].wishes_since(self._intents["create", pod.name])
        most = max((wish.replicas.get(pod.group, 0) for wish in wishes), default=0)
        present = len(self.workers(pod.owner, pod.group))
        if present > most:
            self._blame(f"{pod.name} is number {present}, at most {most} were asked for")

    def _ended(self, before: Seen, pod: Seen, *, gone: bool) -> None:
        """A pod is going, has gone, or has ended by itself."""
        cluster = self.clusters[pod.owner]
        deleted = gone or pod.terminating
        if not deleted or not ACTOR.get():
            cluster.ends.append((self._loop.time(), "" if pod.head else pod.group))
            return
        self._deleted.add(pod.uid)
        if self._strict and before.live:
            self._judge(before, cluster)

    def _judge(self, pod: Seen, cluster: Cluster) -> None:
        """An operator has deleted a pod that was alive: was that called for?"""
        intent = self._intents["delete", pod.name]
        wishes = cluster.wishes_since(intent)
        if cluster.suspending or any(wish.everything_goes for wish in wishes):
            return
        if pod.head:
            self._blame(f"head {pod.name} was deleted and nobody asked for that")
            return
        if any(pod.name in wish.named for wish in wishes):
            return
        least = min((wish.replicas.get(pod.group, 0) for wish in wishes), default=0)
        others = self.workers(pod.owner, pod.group)
        left = sum(not o.terminating and o.uid != pod.uid for o in others)
        if left + intent.ghosts + cluster.ended_since(pod.group, intent) < least:
            self._blame(f"{pod.name} was deleted, which leaves {left} of {least}")

    def _count_heads(self, cluster: str) -> None:
        now = self._loop.time()
        live = sorted(
            p.name for p in self.pods.values() if p.head and p.cluster == cluster and p.live
        )
        if len(live) < 2:
            since = self._doubled.pop(cluster, now)
            self.two_heads = max(self.two_heads, now - since)
        elif cluster not in self._doubled:
            self._doubled[cluster] = now
            if self._strict:
                self._blame(f"{cluster} has two live heads: {', '.join(live)}")

    def _blame(self, what: str) -> None:
        self.violations.append(f"{self._loop.time():.3f} s, {ACTOR.get() or 'somebody'}: {what}")


def _labels(obj: dict[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _seen(obj: dict[str, Any]) -> Seen:
    meta, labels = obj["metadata"], _labels(obj)
    owners = [r["uid"] for r in meta.get("ownerReferences", []) if r.get("controller")]
    return Seen(
        uid=meta["uid"],
        name=meta["name"],
        owner=owners[0] if owners else "",
        cluster=labels["ray.io/cluster"],
        group=labels.get("ray.io/group", ""),
        head=labels.get("ray.io/node-type") == "head",
        terminating="deletionTimestamp" in meta,
        ended=obj.get("status", {}).get("phase") in {"Failed", "Succeeded"},
    )
