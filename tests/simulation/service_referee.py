"""Watches every transition of RayServices, their clusters and services in the store.

It sees the truth at once and holds the operator to the invariants of a rollout (I1 to I9 of
tests/ray/service/rollout/test_every_state.py) as far as stored objects show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.service.identity import digest
from devcluster.apiserver.store import StoredEvent

Json = dict[str, Any]
CONFIG_HASH = "manta.dev/serve-config-hash"
ROLES = ("activeServiceStatus", "pendingServiceStatus")
DEFAULT_SURGE = 100


@dataclass
class ServiceHistory:
    """A RayService as it is, and what it has been.

    Attributes:
        named: clusters that its status has ever named.
    """

    object: Json
    named: set[str] = field(default_factory=set)

    def name(self, role: str) -> str:
        return (self._status().get(role) or {}).get("rayClusterName", "")

    @property
    def stable(self) -> tuple[str, str]:
        """Names of the services that stay; those of one cluster go with it."""
        name = self.object["metadata"]["name"]
        return f"{name}-head-svc", f"{name}-serve-svc"

    def percent(self, role: str, field_: str) -> int | None:
        return (self._status().get(role) or {}).get(field_)

    def is_true(self, condition: str) -> bool:
        conditions = self._status().get("conditions") or ()
        return any(each["type"] == condition and each["status"] == "True" for each in conditions)

    @property
    def is_to_serve(self) -> bool:
        """Whether nobody has asked for its end, and it has not been given up."""
        ending = bool(self.object["metadata"].get("deletionTimestamp"))
        suspended = self.is_true("Suspending") or self.object["spec"].get("suspend", False)
        return not ending and not suspended and any(map(self.name, ROLES))

    @property
    def surge(self) -> int:
        strategy = self.object["spec"].get("upgradeStrategy") or {}
        options = strategy.get("clusterUpgradeOptions") or {}
        return options.get("maxSurgePercent", DEFAULT_SURGE)

    def _status(self) -> Json:
        return self.object.get("status") or {}


class ServiceReferee:
    """Called after every transition of a store.

    Attributes:
        lost: names of clusters that somebody else deletes; their end is nobody's fault.
        configs: hashes of all configs that were ever stored on a cluster, by its uid.
        clusters: uids of the clusters that there are, by name.
    """

    def __init__(self, violations: list[str]) -> None:
        self.violations = violations
        self.lost: set[str] = set()
        self.configs: dict[str, list[str]] = {}
        self.clusters: dict[str, str] = {}
        self._services: dict[str, ServiceHistory] = {}  # by uid
        self._stable: dict[str, Json] = {}  # services of RayServices, by key
        self._pods: dict[str, dict[str, Json]] = {}  # by name of their cluster and uid

    def __call__(self, event: StoredEvent) -> None:
        object_ = event.current.object
        if event.table == str(RAYSERVICES):
            self._service(object_, gone=event.type == "DELETED")
        elif event.table == str(RAYCLUSTERS):
            self._cluster(event, object_)
        elif event.table == str(SERVICES):
            self._stable_service(event, object_)
        elif event.table == str(PODS):
            self._pod(event, object_)

    def check_puts(self, cluster_uid: str, bodies: Iterable[Json]) -> None:
        """What the Serve of a cluster was sent must have been stored on it."""
        for body in bodies:
            config = {key: value for key, value in body.items() if key != "target_capacity"}
            sent = digest(msgspec.json.encode(config, order="sorted"))
            if sent not in self.configs.get(cluster_uid, ()):
                self._blame(f"I5: cluster {cluster_uid} got a config that was never stored on it")

    # -- RayServices --------------------------------------------------------------------------

    def _service(self, object_: Json, *, gone: bool) -> None:
        uid = object_["metadata"]["uid"]
        if gone:
            self._services.pop(uid, None)
            return
        before = self._services.get(uid)
        now = ServiceHistory(object_, set() if before is None else before.named)
        now.named |= {name for name in map(now.name, ROLES) if name}
        self._services[uid] = now
        self._check_shares(now)
        if before is not None:
            self._check_direction(before, now)

    def _check_shares(self, now: ServiceHistory) -> None:
        capacities = [now.percent(role, "targetCapacity") for role in ROLES]
        weights = [now.percent(role, "trafficRoutedPercent") for role in ROLES]
        if None not in capacities and sum(filter(None, capacities)) > 100 + now.surge:
            self._blame(f"I1: capacities {capacities} with a surge of {now.surge}")
        if None not in weights and sum(filter(None, weights)) != 100:
            self._blame(f"I2: weights {weights}")

    def _check_direction(self, before: ServiceHistory, now: ServiceHistory) -> None:
        """Within one direction of the same pair of clusters capacities go one way (I7)."""
        same = all(before.name(role) == now.name(role) for role in ROLES)
        back = now.is_true("RollbackInProgress")
        if not same or before.is_true("RollbackInProgress") is not back:
            return
        for role, grows in zip(ROLES, (back, not back), strict=True):
            old, new = (each.percent(role, "targetCapacity") for each in (before, now))
            if old is not None and new is not None and old != new and (new > old) is not grows:
                self._blame(f"I7: capacity of {now.name(role)} went from {old} to {new}")

    # -- clusters -----------------------------------------------------------------------------

    def _cluster(self, event: StoredEvent, object_: Json) -> None:
        owner = self._owner(object_)
        if owner is None:
            return
        meta = object_["metadata"]
        if event.type == "DELETED":
            self.clusters.pop(meta["name"], None)
        else:
            self.clusters[meta["name"]] = meta["uid"]
        stored = (meta.get("annotations") or {}).get(CONFIG_HASH, "")
        history = self.configs.setdefault(meta["uid"], [])
        if event.previous is None and meta["name"] not in owner.named:
            self._blame(f"I6: cluster {meta['name']} was made, and no status has named it")
        if stored and stored not in history[-1:]:
            if history and owner.name(ROLES[1]) and owner.name(ROLES[0]) == meta["name"]:
                self._blame(f"I5: the config of {meta['name']} changed while it is being replaced")
            history.append(stored)
        if self._begins_to_go(event):
            self._check_deletion(owner, meta["name"])

    @staticmethod
    def _begins_to_go(event: StoredEvent) -> bool:
        if event.previous is None:
            return False
        was_going = bool(event.previous.object["metadata"].get("deletionTimestamp"))
        goes = event.type == "DELETED" or event.current.object["metadata"].get("deletionTimestamp")
        return bool(goes) and not was_going

    def _check_deletion(self, owner: ServiceHistory, name: str) -> None:
        if name in self.lost or not owner.is_to_serve:
            return
        if name in map(owner.name, ROLES):
            self._blame(f"I6: cluster {name} is deleted, and the status names it")
        if any(selected(each) == name for each in self._stable.values()):
            self._blame(f"I4: cluster {name} is deleted, and a service selects it")

    # -- services and pods --------------------------------------------------------------------

    def _stable_service(self, event: StoredEvent, object_: Json) -> None:
        owner = self._owner(object_)
        if owner is None or object_["metadata"]["name"] not in owner.stable:
            return
        before = self._stable.pop(event.key, None)
        if event.type == "DELETED":
            if owner.is_to_serve:
                self._blame(f"I4: service {event.key} is deleted")
            return
        self._stable[event.key] = object_
        if before is None or selected(before) == selected(object_):
            return
        if self._backs(before) and not self._backs(object_):
            self._blame(f"I4: {event.key} leads to {selected(object_)}, where nothing is ready")

    def _pod(self, event: StoredEvent, object_: Json) -> None:
        meta = object_["metadata"]
        cluster = (meta.get("labels") or {}).get("ray.io/cluster", "")
        pods = self._pods.setdefault(cluster, {})
        if event.type == "DELETED":
            pods.pop(meta["uid"], None)
        else:
            pods[meta["uid"]] = object_

    def _backs(self, service: Json) -> bool:
        """Whether a ready pod is behind a service."""
        selector = service["spec"].get("selector") or {}
        return any(
            selector.items() <= (pod["metadata"].get("labels") or {}).items() and _is_ready(pod)
            for pod in self._pods.get(selected(service), {}).values()
        )

    def _owner(self, object_: Json) -> ServiceHistory | None:
        found = (self._services.get(uid) for uid in owners(object_))
        return next((each for each in found if each is not None), None)

    def _blame(self, what: str) -> None:
        self.violations.append(what)


def selected(service: Json) -> str:
    return (service["spec"].get("selector") or {}).get("ray.io/cluster", "")


def owners(object_: Json) -> Iterator[str]:
    for each in object_["metadata"].get("ownerReferences") or ():
        if each.get("controller"):
            yield each["uid"]


def _is_ready(pod: Json) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
