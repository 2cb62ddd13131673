"""The referee of RayServices sees what must never be."""

from __future__ import annotations

from typing import Any

import pytest

from controller.devcluster.apiserver.store import Stored, StoredEvent
from tests.simulation.service_referee import ServiceReferee

Json = dict[str, Any]
ROLLBACK = [{"type": "RollbackInProgress", "status": "True"}]


class Store:
    """Objects whose changes a referee is told."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._referee = ServiceReferee(self.violations)
        self._objects: dict[tuple[str, str], Stored] = {}
        self._revision = 0

    def put(self, table: str, name: str, *, gone: bool = False, **object_: Any) -> None:
        meta = {"name": name, "uid": f"uid of {name}"} | object_.pop("metadata", {})
        before = self._objects.get((table, name))
        self._revision += 1
        now = Stored({"metadata": meta, "spec": {}, **object_}, self._revision)
        self._objects[table, name] = now
        sort: Any = "DELETED" if gone else "MODIFIED" if before else "ADDED"
        self._referee(StoredEvent(sort, table, f"default/{name}", self._revision, now, before))

    def service(self, active: Json | None, pending: Json | None = None, **more: Any) -> None:
        status = {"activeServiceStatus": active, "pendingServiceStatus": pending, **more}
        self.put("rayservices.ray.io", "svc", status=status)

    def cluster(self, name: str, config: str = "", **more: Any) -> None:
        annotations = {"manta.dev/serve-config-hash": config}
        self.put("rayclusters.ray.io", name, metadata=_owned(annotations=annotations), **more)

    def leads_to(self, cluster: str) -> None:
        spec = {"selector": {"ray.io/cluster": cluster, "ray.io/serve": "true"}}
        self.put("services", "svc-serve-svc", metadata=_owned(), spec=spec)

    def pod(self, cluster: str, *, ready: bool) -> None:
        labels = {"ray.io/cluster": cluster, "ray.io/serve": "true"}
        status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
        self.put("pods", f"{cluster}-head", metadata={"labels": labels}, status=status)


def _owned(**meta: Any) -> Json:
    return {"ownerReferences": [{"controller": True, "uid": "uid of svc"}], **meta}


def cluster(name: str, capacity: int | None = None, weight: int | None = None) -> Json:
    shares = {"targetCapacity": capacity, "trafficRoutedPercent": weight}
    return {"rayClusterName": name} | {k: v for k, v in shares.items() if v is not None}


@pytest.fixture
def store() -> Store:
    """A service that is upgraded from cluster a to cluster b, both ready."""
    store = Store()
    store.service(cluster("a"))
    store.cluster("a", "old")
    store.service(cluster("a", 100, 100), cluster("b", 0, 0))
    store.cluster("b", "new")
    for name in ("a", "b"):
        store.pod(name, ready=True)
    store.leads_to("a")
    assert store.violations == []
    return store


def test_i1_capacities_beyond_the_surge(store: Store):
    store.service(cluster("a", 200), cluster("b", 20))
    assert store.violations[0].startswith("I1")


def test_i2_weights_that_are_not_a_whole(store: Store):
    store.service(cluster("a", 100, 100), cluster("b", 20, 20))
    assert store.violations == ["I2: weights [100, 20]"]


def test_i4_services_led_to_where_nothing_is_ready(store: Store):
    store.pod("b", ready=False)
    store.leads_to("b")
    assert store.violations[0].startswith("I4")


def test_services_may_be_led_to_what_is_ready(store: Store):
    store.leads_to("b")
    assert store.violations == []


def test_i4_a_cluster_that_is_deleted_while_a_service_selects_it(store: Store):
    store.service(cluster("b"))
    store.put("rayclusters.ray.io", "a", metadata=_owned(deletionTimestamp="now"))
    assert store.violations == ["I4: cluster a is deleted, and a service selects it"]


def test_i4_a_stable_service_that_is_deleted(store: Store):
    store.put("services", "svc-serve-svc", metadata=_owned(), gone=True)
    assert store.violations == ["I4: service default/svc-serve-svc is deleted"]


def test_the_service_of_one_cluster_goes_with_it(store: Store):
    for gone in (False, True):
        store.put("services", "a-serve-svc", metadata=_owned(), gone=gone)
    assert store.violations == []


def test_i5_a_config_that_changes_while_the_cluster_is_being_replaced(store: Store):
    store.cluster("a", "new")
    assert store.violations[0].startswith("I5")


def test_the_config_of_the_pending_cluster_may_change(store: Store):
    store.cluster("b", "newer")
    assert store.violations == []


def test_i6_a_cluster_that_no_status_has_named(store: Store):
    store.cluster("c")
    assert store.violations[0].startswith("I6")


def test_i7_a_capacity_that_goes_back_and_forth(store: Store):
    store.service(cluster("a", 80), cluster("b", 20))
    store.service(cluster("a", 80), cluster("b", 0))
    assert store.violations == ["I7: capacity of b went from 20 to 0"]


def test_in_a_rollback_it_goes_back(store: Store):
    store.service(cluster("a", 80), cluster("b", 20), conditions=ROLLBACK)
    store.service(cluster("a", 100), cluster("b", 0), conditions=ROLLBACK)
    assert store.violations == []
