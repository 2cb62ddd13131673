"""Watches the routes of incremental upgrades: their weights never exceed what is ready.

An operator sees the truth late: what counts as ready at a moment is the most, or the least, that a
cluster had ready in the minute before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct

from controller.kube.resources import HTTP_ROUTES
from devcluster.apiserver.store import StoredEvent
from tests.simulation.witnessed_ray import WitnessedRay

Json = dict[str, Any]

BACKEND = "-serve-svc"
"""End of the name of a cluster's own service."""

LATE = 60.0
"""Seconds after which nobody may rely on an answer of Ray any more."""

FULL = 100


class Sample(Struct, frozen=True):
    """Percent of its full size that each cluster had ready from a moment on, by uid."""

    time: float
    ready: Mapping[str, float]


class ReadyCapacity:
    """What the clusters of RayServices have ready, and had a moment ago.

    Args:
        ray: knows what its Serves run.
    """

    def __init__(self, ray: WitnessedRay, now: Callable[[], float]) -> None:
        self._ray = ray
        self._now = now
        self._samples: deque[Sample] = deque()

    def look(self) -> None:
        """Look at all clusters now."""
        now = self._now()
        ready = {
            place[0]: serve.ready(now)
            for place, serve in self._ray.serves()
            if self._ray.has_ready_head(place)
        }
        if not self._samples or self._samples[-1].ready != ready:
            self._samples.append(Sample(now, ready))
        while len(self._samples) > 1 and self._samples[1].time < now - LATE:
            self._samples.popleft()

    def most(self, uid: str) -> float:
        """The most that a cluster had ready lately."""
        return max(each.ready.get(uid, 0.0) for each in self._samples)

    def least_together(self, uids: Collection[str]) -> float:
        """The least that these clusters had ready together lately."""
        return min(sum(each.ready.get(uid, 0.0) for uid in uids) for each in self._samples)


class RouteReferee:
    """Called after every transition of a store, when the clusters are known.

    Args:
        ready: what the clusters have ready.
        clusters: uids of those that there are, by name.
    """

    def __init__(
        self, violations: list[str], ready: ReadyCapacity, clusters: Mapping[str, str]
    ) -> None:
        self._violations = violations
        self._ready = ready
        self._clusters = clusters

    def __call__(self, event: StoredEvent) -> None:
        if event.table != str(HTTP_ROUTES) or event.type != "MODIFIED" or event.previous is None:
            return
        before, now = weights(event.previous.object), weights(event.current.object)
        clusters = sorted(before.keys() | now.keys())
        for name in clusters:
            others = [each for each in clusters if each != name]
            if now.get(name, 0) > before.get(name, 0):
                self._check_growth(event, name, now[name], others)

    def _check_growth(self, event: StoredEvent, name: str, weight: int, others: list[str]) -> None:
        """A weight exceeds what is ready only if both clusters cannot carry everything (I3)."""
        uids = [self._clusters.get(each, "") for each in (name, *others)]
        most = self._ready.most(uids[0])
        if weight > most and self._ready.least_together(uids) >= FULL:
            self._violations.append(
                f"I3: {event.key} leads {weight} % to {name}, of which {most:.0f} % is ready"
            )


def weights(route: Json) -> dict[str, int]:
    """The weights of a route, by cluster."""
    return {
        each["name"].removesuffix(BACKEND): each.get("weight", 1)
        for rule in route["spec"].get("rules", ())
        for each in rule.get("backendRefs", ())
    }
