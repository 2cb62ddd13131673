"""What a RayCluster asks for, read from the stored object by other means than the operator's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from tests.simulation.rolling_wish import RollingWish, edition_of, rolling_wish_of

SCALING = frozenset({"replicas", "minReplicas", "maxReplicas", "scaleStrategy", "suspend"})


class GroupWish(Struct, frozen=True):
    """A worker group at one generation.

    Attributes:
        names: those in workersToDelete.
        edition: what tells its pods from those of other templates.
    """

    replicas: int
    hosts: int
    suspended: bool
    names: frozenset[str]
    edition: str = ""

    @property
    def pods(self) -> int:
        return 0 if self.suspended else self.replicas * self.hosts


class Wish(Struct, frozen=True):
    """A RayCluster at one generation.

    Attributes:
        shape: everything that makes other pods, as text.
        rolling: settings of rolling updates, None with another strategy.
        head_edition: what tells the head from one of another template.
        keeps_state: whether what a head knows outlives it.
        graceful: whether workers that are taken away are replaced before they go.
    """

    generation: int
    groups: dict[str, GroupWish]
    suspended: bool
    autoscaling: bool
    recreate: bool
    deleting: bool
    redis: bool
    shape: str
    rolling: RollingWish | None = None
    head_edition: str = ""
    keeps_state: bool = False
    graceful: bool = False

    def pods(self, group: str) -> int:
        """How many workers of the group there should be."""
        if self.suspended or group not in self.groups:
            return 0
        return self.groups[group].pods

    def surge(self, group: str) -> int:
        """How many more workers there may be while others are outdated or taken away."""
        if not self.pods(group):
            return 0
        wish = self.groups[group]
        if self.rolling is None:
            return wish.hosts if self.graceful else 0
        return self.rolling.surge_of(wish.replicas) * wish.hosts

    def edition(self, group: str) -> str:
        """The edition of the pods of a group, empty if there is no such group."""
        return self.groups[group].edition if group in self.groups else ""


@dataclass(slots=True)
class History:
    """A RayCluster through its generations, and what has become of its pods.

    Attributes:
        wishes: all, the oldest first.
        halted_until: when its conditions last said that it is suspending or suspended.
        spec: the last specification that was written, with what a definition has dropped of it.
        cut: the generations of which a definition has dropped something.
        guarded_until: when it last had the finalizer that cleans up Redis.
        ends: when pods of which group went that no operator had deleted.
        heads: of which generation each head was made, by uid.
        heads_left: when it had gone.
        cut_heads: uids of heads that were made while a definition dropped something, or from such
            a generation.
        restored_to: the oldest generation that an earlier database has brought back, if any has.
    """

    name: str = ""
    wishes: list[Wish] = field(default_factory=list)
    present: bool = True
    halted_until: float = -1.0
    spec: dict[str, Any] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)
    guarded_until: float = -1.0
    ends: list[tuple[float, str]] = field(default_factory=list)
    heads: dict[str, int] = field(default_factory=dict)
    heads_left: dict[str, float] = field(default_factory=dict)
    cut_heads: set[str] = field(default_factory=set)
    restored_to: int | None = None

    def since(self, generation: int) -> list[Wish]:
        """That generation's wish and all later ones, of both histories if there are two."""
        if self.restored_to is not None:
            generation = min(generation, self.restored_to)
        return [wish for wish in self.wishes if wish.generation >= generation]

    def shape_at(self, generation: int) -> str:
        """The shape of that generation."""
        return next((w.shape for w in self.wishes[::-1] if w.generation == generation), "")

    def is_outdated(self, wish: Wish, time: float, seen: frozenset[str]) -> bool:
        """Whether a head that was there since `time`, or was seen then, was made from another one.

        That is so too if somebody writes again what a definition had dropped when it was made.
        """
        return any(
            self.shape_at(generation) != wish.shape
            or (uid in self.cut_heads and wish.generation > generation)
            for uid, generation in self.heads.items()
            if uid in seen or self.heads_left.get(uid, time) >= time
        )

    def hosts_at(self, generation: int, group: str) -> int:
        """`numOfHosts` of a group at that generation, 0 if there was no such group."""
        wish = next((w for w in self.wishes[::-1] if w.generation == generation), None)
        return wish.groups[group].hosts if wish and group in wish.groups else 0

    def ended_since(self, time: float, group: str) -> int:
        """Pods of the group that have ended by themselves since then."""
        return sum(where == group and when >= time for when, where in self.ends)


def wish_of(cluster: dict[str, Any]) -> Wish:
    """What the object asks for."""
    meta, spec = cluster["metadata"], cluster["spec"]
    groups = spec.get("workerGroupSpecs", [])
    storage = spec.get("gcsFaultToleranceOptions")
    return Wish(
        generation=meta["generation"],
        groups={group["groupName"]: _group(group) for group in groups},
        suspended=bool(spec.get("suspend") or spec.get("idleSuspend")),
        autoscaling=bool(spec.get("enableInTreeAutoscaling")),
        recreate=spec.get("upgradeStrategy", {}).get("type") == "Recreate",
        deleting="deletionTimestamp" in meta,
        redis=storage is not None and storage.get("backend", "redis") == "redis",
        shape=json.dumps(_shape(spec), sort_keys=True),
        rolling=rolling_wish_of(spec.get("upgradeStrategy", {})),
        head_edition=edition_of(spec["headGroupSpec"]["template"]["spec"]),
        keeps_state=storage is not None,
        graceful="gracefulTerminationOptions" in spec,
    )


def is_halted(cluster: dict[str, Any]) -> bool:
    """Whether a condition says that the cluster is being, or has been, suspended."""
    conditions = cluster.get("status", {}).get("conditions", [])
    return any(
        c["type"] in {"RayClusterSuspending", "RayClusterSuspended"} and c["status"] == "True"
        for c in conditions
    )


def _group(group: dict[str, Any]) -> GroupWish:
    least, most = group.get("minReplicas") or 0, group.get("maxReplicas", 1 << 31)
    return GroupWish(
        replicas=max(least, min(group.get("replicas") or 0, most)),
        hosts=max(1, group.get("numOfHosts", 1)),
        suspended=bool(group.get("suspend")),
        names=frozenset(group.get("scaleStrategy", {}).get("workersToDelete", ())),
        edition=edition_of(group["template"]["spec"]),
    )


def _shape(spec: dict[str, Any]) -> dict[str, Any]:
    shape = {k: v for k, v in spec.items() if k not in {"upgradeStrategy", "suspend"}}
    shape["workerGroupSpecs"] = [
        {k: v for k, v in group.items() if k not in SCALING and v not in (None, False)}
        for group in spec.get("workerGroupSpecs", [])
    ]
    return shape
