"""Cluster-scoped children of a namespaced owner, which a label names instead of a reference."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.apimachinery.ownership import (
    OWNER_UID,
    index_by_owner,
    is_owned_by,
    owner_uid,
    ownership_text,
    requested_owner,
)
from controller.kube.objects import ConfigMap, KubeObject, ObjectMeta
from controller.kube.resources import Resource
from controller.runtime.expectations.expectations import Expectations
from controller.runtime.expectations.overlay import ObjectReference
from controller.runtime.plan import Create, Target
from controller.runtime.reconcile.failed_groups import WriteOutcome
from controller.runtime.reconcile.writer import Writer
from informers import Store
from tests.runtime.kit import NOW, OWNER, child, status_error
from tests.runtime.recording import RecordingClient, RecordingExpectations

MACHINES = Resource("test.dev", "v1", "machines", "Machine", KubeObject, namespaced=False)
CREATE = Create(
    Target(MACHINES, "", "a", "machines"),
    {"metadata": {"name": "a", "labels": {OWNER_UID: OWNER.uid}}},
)
EXISTS = status_error(409, "AlreadyExists")


def machine(owner: str = OWNER.uid, revision: int = 7, namespace: str = "") -> KubeObject:
    labels = {OWNER_UID: owner} if owner else None
    version = str(revision)
    meta = ObjectMeta(
        name="a", namespace=namespace, uid="uid-a", resource_version=version, labels=labels
    )
    return KubeObject(metadata=meta)


def referring(labels: dict[str, str]) -> ConfigMap:
    return child(owner="other", labels=labels)


def test_the_label_of_a_cluster_scoped_object_names_its_owner():
    assert owner_uid(machine().metadata) == OWNER.uid
    assert index_by_owner(machine()) == (OWNER.uid,)
    assert is_owned_by(machine().metadata, OWNER.uid)
    assert not is_owned_by(machine("other").metadata, OWNER.uid)
    assert ownership_text(machine("other").metadata) == "belongs to the object with uid other"


def test_who_has_no_uid_owns_nothing():
    assert index_by_owner(machine("")) == ()
    assert not is_owned_by(machine("").metadata, "")


def test_the_label_of_an_object_in_a_namespace_names_nobody():
    assert owner_uid(machine(namespace="default").metadata) == ""


def test_a_controller_counts_before_the_label():
    reference = referring({OWNER_UID: OWNER.uid}).metadata.owner_references
    meta = msgspec.structs.replace(machine().metadata, owner_references=reference)
    assert owner_uid(meta) == "other"


def test_the_owner_that_a_body_asks_for():
    label: dict[str, Any] = {"labels": {OWNER_UID: "u"}}
    reference = {"ownerReferences": [{"uid": "x"}, {"uid": "y", "controller": True}]}
    assert requested_owner(label, "") == "u"
    assert requested_owner(label, "default") == ""
    assert requested_owner({**label, **reference}, "") == "y"
    assert requested_owner({"labels": None, "ownerReferences": None}, "") == ""


@pytest.mark.parametrize(
    ("owner", "outcome"),
    [(OWNER.uid, WriteOutcome.DONE), ("x", WriteOutcome.NAME_CONFLICT)],
)
async def test_a_name_that_exists_is_ours_if_its_label_says_so(owner: str, outcome: WriteOutcome):
    client: Any = RecordingClient(EXISTS, machine(owner))
    expectations: Any = RecordingExpectations()
    result = await Writer(client, expectations).perform(OWNER, CREATE)
    assert result.outcome is outcome


async def test_admission_that_takes_the_label_away_blocks_the_scope():
    client: Any = RecordingClient(machine(""))
    expectations: Any = RecordingExpectations()
    await Writer(client, expectations).perform(OWNER, CREATE)
    sentence = (
        f"admission changed label {OWNER_UID} of machines.test.dev a; exempt the operator's "
        "objects from that webhook, then delete the object"
    )
    assert expectations.told[-1] == ("admission_mismatch", CREATE, sentence, True)


class MachineCache:
    """Expectations over a store of machines that a label selects."""

    def __init__(self) -> None:
        self.store: Store[KubeObject] = Store({"owner": index_by_owner})
        self.store.replace([], "1")
        self.expectations = Expectations(now=lambda: 0.0, wall=lambda: NOW)
        self.expectations.add_cache(
            MACHINES, "", self.store, {"owner": index_by_owner}, selective=True
        )
        self.expectations.add_owner(OWNER)

    def show(self, obj: KubeObject) -> None:
        self.store.put(obj)
        self.expectations.observe_change(MACHINES, obj.metadata.key)

    @property
    def names(self) -> list[str]:
        found = self.expectations.reader.by_index(MACHINES, "owner", OWNER.uid)
        return [each.metadata.name for each in found]


def test_a_lost_create_holds_its_scope_until_the_store_shows_its_object():
    machines = MachineCache()
    machines.expectations.expect(OWNER, CREATE)
    machines.expectations.mark_unknown(OWNER, CREATE)
    reads = machines.expectations.reader
    assert reads.pending_scopes(OWNER.uid) == {"machines"}
    machines.show(machine())
    assert reads.pending_scopes(OWNER.uid) == frozenset()
    assert machines.names == ["a"]


def test_the_object_of_another_owner_settles_no_lost_create():
    machines = MachineCache()
    machines.expectations.expect(OWNER, CREATE)
    machines.expectations.mark_unknown(OWNER, CREATE)
    machines.show(machine("other"))
    assert machines.expectations.reader.pending_scopes(OWNER.uid) == {"machines"}


def test_one_that_leaves_the_selection_counts_until_it_is_read_live():
    machines = MachineCache()
    machines.show(machine())
    machines.store.remove("a", "9")
    machines.expectations.observe_delete(MACHINES, machine())
    assert machines.names == ["a"]
    entry = machines.expectations.get(ObjectReference(MACHINES, "a"))
    assert entry is not None
    machines.expectations.record_live_read(entry, None)
    assert machines.names == []
